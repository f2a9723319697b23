"""A short fuzz: every record has the fate that the judge gives it; `make fuzz` is the long one."""

from dataclasses import replace

import pytest

from tests.fuzz.in_process import InProcess
from tests.fuzz.judge import Judge
from tests.fuzz.records import Raw
from tests.fuzz.shapes import SHAPES
from tidemark.core.rows.stateless import StatelessGraph
from tidemark.serde.json_records import JsonRecords

TIME = 1_700_000_000_000


def test_hostile_records_are_all_accounted_for():
    outcome = InProcess(seed=1).run(22_000)

    assert outcome.faults == []
    assert outcome.records == 22_000
    assert min(outcome.counts.values()) > 200


def test_records_cut_into_other_batches_have_the_same_fates():
    assert InProcess(seed=2).run(5_000, cuts=(3, 4, 5)).faults == []


def _drops_a_row(evaluate):
    def wrong(graph, rows, records):
        made = evaluate(graph, rows, records)
        name, rows = next(iter(made.streams.items()))
        return type(made)({name: rows[1:]}, made.dead, made.passed)

    return wrong


def test_a_row_that_is_lost_is_found(monkeypatch):
    monkeypatch.setattr(StatelessGraph, "evaluate", _drops_a_row(StatelessGraph.evaluate))

    assert any("should be passed" in fault for fault in InProcess(seed=1).run(200).faults)


def test_a_value_that_is_read_wrongly_is_found(monkeypatch):
    parse = JsonRecords.parse

    def wrong(records, batch):
        values = [v and v.replace(b'"player":"a"', b'"player":"A"') for v in batch.values]
        return parse(records, replace(batch, values=values))

    monkeypatch.setattr(JsonRecords, "parse", wrong)

    assert any("other rows" in fault for fault in InProcess(seed=1).run(2_000).faults)


SCALARS = SHAPES[0].rules


@pytest.mark.parametrize(
    ("value", "kind", "stage"),
    [
        (b'{"player":"a","at":%d}' % TIME, "passed", ""),
        (b'{"player":"a","at":%d,"ok":false}' % TIME, "filtered", ""),
        (b"\xef\xbb\xbf \n", "blank", ""),
        (b'{"player":"a","at":%d,"at":"1"}' % TIME, "dead", "parse"),
        (b'{"player":"a","at":%d}' % (TIME + 3_600_001), "dead", "event time"),
        (b'{"at":%d}' % TIME, "dead", "key_by"),
        (b'{"player":"%s","at":%d}' % (b"z" * 2**22, TIME), "dead", "log"),
    ],
)
def test_the_judge_knows(value, kind, stage):
    fate = Judge(SCALARS).judge(Raw(None, (), TIME, value))

    assert (fate.kind, fate.stage) == (kind, stage)
