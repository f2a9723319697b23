"""A record is not sent again where results may have it already."""

from tests.runtime.letters.samples import NOW, stored
from tidemark.runtime.letters.past import Past


def row(stage: str, at_ms: int = NOW):
    return stored(at_ms=at_ms, stage=stage, key='["a"]', timestamp_ms=None)


def test_a_row_was_taken_by_operators_that_did_not_refuse_it():
    past = Past({}, [row("a"), row("b")])
    assert past.taken_by(row("a"), {"a": 1, "b": 1}) == []
    assert past.taken_by(row("a"), {"a": 1, "c": 1}) == ["c"]
    assert past.taken_by(row("a"), {"a": 2}) == ["a"]


def test_a_refusal_before_the_reset_of_its_operator_does_not_count():
    past = Past({"b": NOW + 1}, [row("a"), row("b")])
    assert past.taken_by(row("a"), {"a": 1, "b": 1}) == ["b"]
    assert past.read_again_ms(row("b")) == NOW + 1
    assert past.read_again_ms(row("a")) is None


def test_a_record_was_read_again_once_all_operators_were_started_afresh():
    assert Past({}, []).read_again_ms(stored()) is None
    assert Past({"a": NOW + 5, "b": NOW - 5}, []).read_again_ms(stored()) is None
    assert Past({"a": NOW + 5, "b": NOW + 9}, []).read_again_ms(stored()) == NOW + 5
