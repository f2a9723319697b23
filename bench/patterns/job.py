"""One pattern as a module that services load; NEXMARK_* choose it (bench/nexmark/on_kafka.py)."""

import json
import os

from bench.nexmark.query import pipeline as made
from bench.patterns.queries import PATTERNS

pipeline = made(
    os.environ["NEXMARK_RUN"],
    PATTERNS[os.environ["NEXMARK_QUERY"]],
    json.loads(os.environ["NEXMARK_TOPICS"]),
    int(os.environ["NEXMARK_PARTITIONS"]),
)
