"""The pipeline of the public trials in a sink that dies, where TEST_CRASH is set, between steps.

It dies once rows are in the database and before their offsets are in Kafka.
"""

import os
from collections.abc import Sequence
from typing import Any

from tests.kafka.pipelines.counted import build, pipeline
from tidemark.sinks import task as sink_task

__all__ = ["STATUS", "build", "pipeline"]

STATUS = 9


class _Dying(sink_task.SinkTask):
    def checkpoint(self) -> Sequence[Any]:
        offsets = super().checkpoint()
        if self.delivery.delivered.rows:
            os._exit(STATUS)
        return offsets


if os.environ.get("TEST_CRASH"):
    sink_task.SinkTask = _Dying  # type: ignore[misc]
