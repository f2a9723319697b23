"""Sessions: logs in, panes of session windows out.  No semantics live here."""

from tidemark.runtime.service import serve
from tidemark.runtime.task import run


def main() -> None:
    """Run the service until it is told to stop."""
    serve("sessions", lambda config, plan: run(config, plan, "sessions"))


if __name__ == "__main__":
    main()
