"""One join as a module that services load; NEXMARK_* choose it (bench/nexmark/on_kafka.py)."""

import json
import os

from bench.joins.queries import JOINS
from bench.nexmark.query import pipeline as made

pipeline = made(
    os.environ["NEXMARK_RUN"],
    JOINS[os.environ["NEXMARK_QUERY"]],
    json.loads(os.environ["NEXMARK_TOPICS"]),
    int(os.environ["NEXMARK_PARTITIONS"]),
)
