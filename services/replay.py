"""Replay: logs in, results out once more, on Spark.  A job, not a service that goes on.

``python -m services.replay PIPELINE --output parquet:DIR``, or by ``spark-submit``.
"""

import sys

from tidemark.cli import main as command_line


def main() -> None:
    """Run ``tidemark replay`` with the arguments of this process."""
    sys.argv = ["tidemark", "replay", *sys.argv[1:]]
    command_line()


if __name__ == "__main__":
    main()
