"""The keyed services on Spark; ``--release`` gives back the partitions of a killed driver."""

import sys

from tidemark.commands.service import main

if __name__ == "__main__":
    main("spark-release" if "--release" in sys.argv else "spark")
