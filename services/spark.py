"""The keyed services of a pipeline on Spark; ``--release`` gives back what a killed driver had."""

import sys

from tidemark.commands.service import main

if __name__ == "__main__":
    main("spark-release" if sys.argv[1:] == ["--release"] else "spark")
