"""Archive: logs to files that outlive Kafka's retention.  No semantics live here."""

from tidemark.runtime.archive_task import run
from tidemark.runtime.service import serve


def main() -> None:
    """Run the service until it is told to stop."""
    serve("archive", run)


if __name__ == "__main__":
    main()
