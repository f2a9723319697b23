"""The pipeline of pops in a process that stands still, where TEST_STALL is set, within a commit.

It stops itself when all output of a commit is on the broker and its offsets are not: ingest in the
first commit that reports silence, another service in the first that publishes a pane.
"""

import json
import os
import signal
from typing import Any

from tests.kafka.pipelines.pops import build, pipeline
from tidemark.runtime.client import commit, transaction

__all__ = ["build", "pipeline"]


class _Transaction(transaction.Transaction):
    publishes = False

    def write(self, topic: str, *records: Any) -> None:
        super().write(topic, *records)
        self.publishes |= topic in _RESULTS and bool(records[-1])

    def commit(self, offsets: Any, consumer: Any) -> None:
        if self.publishes or any(map(_has_silence, offsets)):
            self._producer.flush()
            os.kill(os.getpid(), signal.SIGSTOP)
        super().commit(offsets, consumer)


_RESULTS = {f"{pipeline.name}.{output}" for output in ("pops", "sessions")}


def _has_silence(offset: Any) -> bool:
    return bool(json.loads(offset.metadata).get("silenceMs", 0) > 0)


if os.environ.get("TEST_STALL"):
    commit.Transaction = _Transaction  # type: ignore[attr-defined]
