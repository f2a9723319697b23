"""The pipeline of pops in a process that dies, where TEST_CRASH is set, in the middle of a commit.

It dies in the first commit that has results, between its two steps: what the first one does is on
the broker, what the second one does is not.
"""

import os
from typing import Any

from tests.kafka.pipelines.pops import build, pipeline
from tidemark.runtime.client import commit, transaction

__all__ = ["STATUS", "build", "pipeline"]

STATUS = 9
_RESULTS = (".pops", ".log", ".dead-letters")


def _die(*_: Any) -> None:
    os._exit(STATUS)


class _Noting:
    """Notes whether results were written: a changelog alone may be of a partition without rows."""

    has_results = False

    def write(self, topic: str, *records: Any) -> None:
        self.has_results |= topic.endswith(_RESULTS)
        super().write(topic, *records)  # type: ignore[misc]


class _Transaction(_Noting, transaction.Transaction):
    def commit(self, *_: Any) -> None:
        if self.has_results:
            self._producer.flush()
            _die()
        super().commit(*_)


class _FlushFirst(_Noting, commit.FlushFirst):
    def commit(self, *_: Any) -> None:
        if self.has_results:
            commit._commit_offsets = _die  # type: ignore[assignment]
        super().commit(*_)


class _OffsetsFirst(_Noting, commit.OffsetsFirst):
    def commit(self, *_: Any) -> None:
        if self.has_results:
            self._held.send = _die  # type: ignore[assignment]
        super().commit(*_)


if os.environ.get("TEST_CRASH"):
    commit.Transaction = _Transaction  # type: ignore[attr-defined]
    commit.FlushFirst = _FlushFirst  # type: ignore[misc]
    commit.OffsetsFirst = _OffsetsFirst  # type: ignore[misc]
