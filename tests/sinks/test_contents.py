"""Where a sink without positions goes on, and what a sink that cannot load again refuses (A1)."""

import pytest

from tidemark.errors import StateError
from tidemark.partition import Partition
from tidemark.runtime.client.consumer import Start
from tidemark.sinks.contents import is_older, noted, require_same, resumed
from tidemark.sinks.sink import Position

AT = Partition("game.pops", 0)
WAS = Position(0, "AAAA", 4)


def start(offset: int, was: Position | None = WAS) -> Start:
    return Start(AT, offset, noted(was) if was is not None else "")


@pytest.mark.parametrize(
    ("begin", "older"),
    [
        (Position(9, "AAAA", 4), False),
        (Position(9, "AAAA", 5), True),
        (Position(9, "AAAA", 3), False),  # read before another process has read the newer one
        (Position(9, "BBBB", 0), True),
    ],
)
def test_records_are_older_if_their_topic_or_generation_is(begin, older):
    assert is_older(WAS, begin) is older


@pytest.mark.parametrize(
    ("offset", "begin", "resumes", "says"),
    [
        (7, Position(3, "AAAA", 4), 7, ""),
        (2, Position(3, "AAAA", 4), 3, ""),  # void records are skipped
        (7, Position(9, "AAAA", 5), 9, "generation 5 begins; the sink goes on at offset 9"),
        (7, Position(6, "AAAA", 5), 7, "generation 5 begins; the sink goes on at offset 7"),
        (7, Position(0, "BBBB", 0), 0, "the topic was created again; the sink goes on at offset 0"),
    ],
)
def test_a_sink_without_positions_skips_what_is_void(caplog, offset, begin, resumes, says):
    assert resumed(start(offset), begin) == resumes
    assert says in caplog.text
    assert bool(says) is bool(caplog.text)


def test_an_offset_of_an_earlier_version_is_taken_as_it_is():
    assert resumed(start(7, None), Position(3, "BBBB", 5)) == 7


def test_a_sink_that_cannot_load_again_ends_where_its_rows_are_void():
    same = Position(9, "AAAA", 4)
    require_same(start(7), Position(7, "AAAA"), same)
    require_same(start(7, None), Position(7, "AAAA"), same)
    with pytest.raises(StateError, match="was created again, and the sink has no method 'reload'"):
        require_same(start(7), Position(7, "AAAA"), Position(0, "BBBB", 0))
    with pytest.raises(StateError, match="has generation 5, and the sink has no method 'reload'"):
        require_same(start(7), Position(7, "AAAA"), Position(9, "AAAA", 5))
