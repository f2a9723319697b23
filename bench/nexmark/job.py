"""One query as a module that services load; NEXMARK_* choose it (on_kafka.py)."""

import json
import os
from pkgutil import resolve_name

from bench.nexmark.query import pipeline as made

pipeline = made(
    os.environ["NEXMARK_RUN"],
    resolve_name(os.environ["NEXMARK_QUERIES"])[os.environ["NEXMARK_QUERY"]],
    json.loads(os.environ["NEXMARK_TOPICS"]),
    int(os.environ["NEXMARK_PARTITIONS"]),
)
