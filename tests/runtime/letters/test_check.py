"""The present program judges a record as the services would."""

import json

import pytest

from tests.kafka.pipelines import failing, pops
from tidemark.runtime.letters.check import Check
from tidemark.runtime.letters.raw_records import RawRecord

T = 1_700_000_000_000


def record(topic: str, value: object, partition: int = 0, key: bytes | None = None) -> RawRecord:
    text = value if isinstance(value, bytes) else json.dumps(value).encode()
    return RawRecord(topic, partition, 99, T, key, text, None)


def test_records_are_good_dead_or_filtered_whatever_their_order_and_partition():
    check = Check(pops.build("p").plan(), T)
    good = record("p-moves", {"player": "a", "at": T, "score": 1}, 3)
    dead = record("p-moves", {"player": "a", "at": T, "score": "1"}, 3)
    miss = record("p-moves", {"player": "a", "at": T, "kind": "miss"}, 1)
    nobody = record("p-moves", {"at": T}, 3, b"\xff")
    found = check.verdicts([dead, good, miss, good, nobody])
    assert [each.is_dead for each in found] == [True, False, False, False, True]
    assert (found[0].stage, found[0].reason) == ("parse", "column score: expected int, got str")
    assert (found[1].rows, found[1].event_time_ms) == ({"pops": 1, "sessions": 1}, T)
    assert (found[2].rows, found[2].event_time_ms) == ({}, None)
    assert found[4].stage == "_key"


@pytest.mark.parametrize("on_error", ["dead_letter", "stop"])
def test_rows_that_operators_refuse_are_dead_too(on_error):
    check = Check(failing.build("p", on_error).plan(), T)
    good, bad = (record("p-in", {"k": "a", "ts": T + at, "v": v}) for at, v in ((0, 5), (1, None)))
    first, second, third = check.verdicts([good, bad, good])
    assert (first.is_dead, third.is_dead) == (False, False)
    assert second.is_dead
    assert "total=custom(Total): add: TypeError: " in second.reason
    assert second.rows == {"windows": 1, "sessions": 1}
