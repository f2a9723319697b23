"""Windowing: logs in, panes of all windows but sessions out.  No semantics live here."""

from tidemark.runtime.service import serve
from tidemark.runtime.task import run


def main() -> None:
    """Run the service until it is told to stop."""
    serve("windowing", lambda config, plan: run(config, plan, "windowing"))


if __name__ == "__main__":
    main()
