"""Where a sink without positions goes on, and what a sink that cannot load again refuses (A1)."""

import pytest

from examples.game import game
from tidemark.errors import ConfigurationError, StateError
from tidemark.partition import Partition
from tidemark.runtime.client.consumer import Start
from tidemark.runtime.client.generations import Generation, result_columns
from tidemark.sinks.contents import difference, is_older, noted, require_same, resumed
from tidemark.sinks.sink import Position
from tidemark.sinks.stopped import StoppedTables
from tidemark.sinks.table import tables_of

AT = Partition("game.pops", 0)
IDENTITY = {"player": "String", "start": "Int64"}
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


@pytest.mark.parametrize(
    ("key", "columns", "says"),
    [
        ([], {}, ""),  # of an earlier version
        (["player"], {**IDENTITY, "pops": "Int64", "gone": "Int64"}, ""),
        (["player"], {"player": "String", "window": "Int64"}, "lack column start: they are of"),
        (["player", "city"], {"player": "String"}, "have the key (player, city), not (player)"),
        (
            ["player"],
            {**IDENTITY, "pops": "Float64"},
            "have column pops of type Float64, not Int64",
        ),
    ],
)
def test_results_of_another_key_or_type_are_not_read(key, columns, says):
    (operator, *_) = game.plan().operators
    generation = Generation(operator.name, 0, key=key, columns=columns)
    found = difference(generation, operator)
    assert found.startswith(says)
    assert bool(found) is bool(says)


def test_results_of_the_pipeline_itself_are_read():
    for operator in game.plan().operators:
        own = list(operator.results.port.key), result_columns(operator)
        assert difference(Generation(operator.name, 0, key=own[0], columns=own[1]), operator) == ""


def test_stopped_tables_are_named_and_tried_again_each_minute(caplog):
    tables = tables_of(game.plan())[:2]
    stopped = StoppedTables(tables, lambda line: line.replace("PIPELINE", "p"))
    stopped.replace({tables[0].name: "try 'tidemark reset PIPELINE'"}, 100.0)
    stopped.report(100.0)
    stopped.report(101.0)
    line = f"table {tables[0].name} has stopped: try 'tidemark reset p'"
    assert [each.message for each in caplog.records] == [f"{line}. The other tables go on"]
    assert (list(stopped.topics), stopped.lines) == ([tables[0].topic], [line])
    assert [stopped.are_due(now) for now in (159.0, 160.0)] == [False, True]
    stopped.require_others()
    stopped.add({tables[1].name: "no"})
    with pytest.raises(ConfigurationError, match=r"reset p'; table .* has stopped: no"):
        stopped.require_others()
    for reasons in ({}, {"other": "no"}):
        with pytest.raises(ConfigurationError, match="the sink says that"):
            stopped.add(reasons)
    stopped.replace({}, 160.0)
    assert not stopped.are_due(300.0)
