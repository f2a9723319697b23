"""The pipeline of pops in a process that dies, where TEST_CRASH is set, in the middle of a commit.

It dies in the first commit that has output, between its two steps: what the first one does is on
the broker, what the second one does is not.
"""

import os
from typing import Any

from pops import build, pipeline

from tidemark.runtime import commit

__all__ = ["STATUS", "build", "pipeline"]

STATUS = 9


def _die(*_: Any) -> None:
    os._exit(STATUS)


class _Transaction(commit.Transaction):
    def commit(self, *_: Any) -> None:
        if self.is_open:
            self._producer.flush()
            _die()
        super().commit(*_)


class _FlushFirst(commit.FlushFirst):
    def commit(self, *_: Any) -> None:
        if self.is_open:
            commit._commit_offsets = _die
        super().commit(*_)


if os.environ.get("TEST_CRASH"):
    commit.Transaction = _Transaction  # type: ignore[misc]
    commit.FlushFirst = _FlushFirst  # type: ignore[misc]
    if os.environ["TIDEMARK_GUARANTEE"] == "at-most-once":
        commit.send = _die
