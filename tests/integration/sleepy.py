"""The pipeline of pops in a process whose ingest falls asleep over the first record."""

import time
from typing import Any

from pops import build, pipeline

from tidemark.ingest import Ingest

__all__ = ["build", "pipeline"]


def _sleep(*_: Any) -> None:
    time.sleep(600)


Ingest.take = _sleep  # type: ignore[method-assign,assignment]
