"""Ingest: raw topics in, logs of segments and dead letters out.  No semantics live here."""

from tidemark.runtime.ingest_task import run
from tidemark.runtime.service import serve


def main() -> None:
    """Run the service until it is told to stop."""
    serve("ingest", run)


if __name__ == "__main__":
    main()
