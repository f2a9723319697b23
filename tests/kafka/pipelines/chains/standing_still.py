"""The chained pipeline in a process that stands still, where TEST_STALL is set, within a commit.

It stops itself in the first commit that hands on rows: all records are on the broker, and its
offsets are not.
"""

import os
import signal
from typing import Any

from tests.kafka.pipelines.chains.chained import build, pipeline
from tidemark.runtime.client import commit, transaction
from tidemark.serde.segments import decode_segment

__all__ = ["build", "pipeline"]

_LOGS = {log.topic for log in pipeline.plan().logs}


class _Transaction(transaction.Transaction):
    hands_on = False

    def write(self, topic: str, *records: Any) -> None:
        super().write(topic, *records)
        if topic in _LOGS:
            self.hands_on |= any(decode_segment(value or b"").height for value in records[-1])

    def commit(self, offsets: Any, consumer: Any) -> None:
        if self.hands_on:
            self._producer.flush()
            os.kill(os.getpid(), signal.SIGSTOP)
        super().commit(offsets, consumer)


if os.environ.get("TEST_STALL"):
    commit.Transaction = _Transaction  # type: ignore[attr-defined]
