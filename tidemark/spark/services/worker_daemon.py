"""The daemon that Spark forks its Python workers from, with the modules of all tasks imported.

Spark's own daemon imports nothing before it forks, so each worker imports polars, pyarrow and
Tidemark: more CPU time than a task of a small replay takes.  The setting
``spark.python.daemon.module`` names this module.

Nothing is computed before the fork, so no library has a pool of threads yet that a fork would lack.
"""

import gc
from importlib import import_module

from pyspark import daemon

MODULES = (
    "pandas",  # pyarrow imports it when it makes its first array
    "pyspark.worker",
    "tidemark.spark.read.archived",
    "tidemark.spark.read.envelopes",
    "tidemark.spark.read.reingest",
    "tidemark.spark.replay.handover_tasks",
    "tidemark.spark.replay.log_writer",
    "tidemark.spark.services.batch",
    "tidemark.spark.services.ingest_batch",
    "tidemark.spark.stage_tasks",
    "tidemark.spark.targets.files",
    "tidemark.spark.targets.messages",
    "tidemark.spark.targets.stage_rows",
    "tidemark.spark.targets.topics",
    "tidemark.spark.work",
)
"""Those of Spark's workers and of the functions that tasks call."""


def main() -> None:
    """Fork workers until Spark ends the daemon."""
    for name in MODULES:
        import_module(name)
    gc.freeze()  # a worker collects garbage after each task, and need not look at what stays
    daemon.manager()


if __name__ == "__main__":
    main()
