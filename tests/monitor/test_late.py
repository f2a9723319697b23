"""Late rows from stats, as ``why late`` counts them in topics: docs/monitor.md, "Late rows"."""

import numpy as np

from tests.monitor.samples import stats
from tidemark.monitor.late import late_rows
from tidemark.runtime.service.histogram import Histogram
from tidemark.runtime.service.reasons import ReasonStats
from tidemark.runtime.service.stats import OperatorStats, Stats


def process(slot: str, late_by_ms: list[int], **reasons: int) -> Stats:
    late_by = Histogram()
    late_by.add_all(np.array(late_by_ms, np.int64))
    known = [ReasonStats("late", len(late_by_ms))]
    known += [ReasonStats(reason, count) for reason, count in reasons.items()]
    late = sum(each.count for each in known)
    found = OperatorStats("pops", late=late, late_reasons=known, late_by=late_by.stats(0))
    return stats(slot=slot, operators=[found, OperatorStats("sessions")])


def test_the_late_rows_of_all_processes_are_in_one_histogram():
    (found,) = late_rows([process("0", [300, 700]), process("1", [400, 100_000_000], other=3)])
    assert found == {
        "operator": "pops",
        "rows": 7,
        "buckets": [
            {"late_by_ms": 500, "rows": 2, "saved": 2},
            {"late_by_ms": 1_000, "rows": 1, "saved": 3},
            {"late_by_ms": None, "rows": 1, "saved": 4},
        ],
        "saves_ms": {"0.5": 501, "0.9": None, "0.99": None, "1.0": None},
        "reasons": {"other": 3},
    }


def test_an_operator_without_late_rows_is_left_out():
    assert late_rows([process("0", [])]) == []
