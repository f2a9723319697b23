"""Few rows with very many results: each step publishes only some of them."""

import numpy as np
import pytest

from bench.memory.bombs import BOMBS, build
from tidemark.core.operators.portions import TARGET_BYTES, bytes_of
from tidemark.core.operators.task import OperatorTask
from tidemark.ingest.ingest import Ingest, Progress, RecordBatch
from tidemark.ingest.segment_builder import SegmentBuilder

RESULTS = {
    "gaps": (0.1, 497_503),
    "night": (0.1, 450_500),
    "hopping": (0.2, 720_000),
    "rolling": (0.1, 2_000),
    "sliding": (0.1, 80_200),
    "join": (0.5, 250_000),
}
"""By bomb, the part of the input to take, and the number of results."""


@pytest.mark.parametrize(("name", "share", "wanted"), [(n, *of) for n, of in RESULTS.items()])
def test_a_step_publishes_a_portion_of_a_flood(name, share, wanted):  # C2, C3
    plan = build("floods", name).plan()
    keys, values = zip(*BOMBS[name].records(share), strict=True)
    count = len(keys)
    none = [0] * count
    offsets = np.arange(count)
    batch = RecordBatch("floods-in", 0, offsets, none, keys, [()] * count, values, count, 0)
    builder = SegmentBuilder(0)
    builder.add(Ingest(plan).take(batch, Progress()))
    ((segment,),) = builder.build(plan.logs[0], 0, {"floods-in": 1})
    (operator,) = plan.operators
    task = OperatorTask(operator.operator)
    sizes_bytes, results = [], 0
    for steps in task.steps([segment]):
        sizes_bytes.append(bytes_of(steps.output.frames))
        results += sum(frame.height for frame in steps.output.frames.values())
    assert results == wanted
    assert max(sizes_bytes) < 4 * TARGET_BYTES
    assert len(sizes_bytes) > 1
