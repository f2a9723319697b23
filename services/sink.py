"""Sink: results, late rows and dead letters to a database or folder.  No semantics live here."""

from tidemark.runtime.service import serve
from tidemark.runtime.sink_task import run


def main() -> None:
    """Run the service until it is told to stop."""
    serve("sink", run)


if __name__ == "__main__":
    main()
