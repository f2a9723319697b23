"""One query as a module that services load; NEXMARK_* choose it (on_kafka.py)."""

import json
import os

from bench.nexmark.queries import QUERIES
from bench.nexmark.query import pipeline as made

pipeline = made(
    os.environ["NEXMARK_RUN"],
    QUERIES[os.environ["NEXMARK_QUERY"]],
    json.loads(os.environ["NEXMARK_TOPICS"]),
    int(os.environ["NEXMARK_PARTITIONS"]),
)
