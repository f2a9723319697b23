"""Replay, a job on Spark: ``python -m services.replay PIPELINE``, or ``spark-submit``."""

import sys

from tidemark.commands.cli import main

if __name__ == "__main__":
    sys.argv = ["tidemark", "replay", *sys.argv[1:]]
    main()
