"""The keyed services of a pipeline on Spark, and ingest where asked for.  No semantics live here.

``python -m services.spark``; with ``--release`` it gives back what a killed driver had.
"""

import sys

from tidemark.runtime.service import serve
from tidemark.spark.stream import release, run


def main() -> None:
    """Run until told to stop."""
    serve("spark", release if sys.argv[1:] == ["--release"] else run)


if __name__ == "__main__":
    main()
