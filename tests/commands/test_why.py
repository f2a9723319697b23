"""What `tidemark why open` prints about clocks: docs/monitor.md, "Why a window is open"."""

from dataclasses import replace
from typing import Any

import pytest
from typer.testing import CliRunner

from tests.kafka.pipelines import pops
from tidemark.commands.cli import app
from tidemark.commands.why.command import clock_lines, moves_on
from tidemark.plan.physical import Plan

T = 1_772_438_400_000


def plan() -> Plan:
    return pops.build("game").plan()


def clock(**fields: Any) -> dict[str, Any]:
    waits = {"operator": "pops", "partition": 0, "clock_ms": T, "open_windows": 3, "why": "waits"}
    return {**waits, "held_by": None, **fields}


@pytest.mark.parametrize(
    ("held_by", "expected"),
    [
        (
            None,
            "a record of any source moves it on, and so does silence, as fast as the wall clock; "
            "`tidemark flush` closes what is open",
        ),
        ("op:counts", "the clock of operator counts moves it on"),
        ("game-moves/1", "a later record of game-moves/1 moves it on, or no record of it for "),
        ("others/1", "a later record of others/1 moves it on"),
    ],
)
def test_what_moves_a_clock_on_is_a_sentence(held_by, expected):
    said = moves_on(plan(), clock(held_by=held_by))
    assert said.startswith(expected)
    assert said.endswith("(idle_after)") is (held_by == "game-moves/1")


def test_silence_moves_no_clock_on_where_a_source_waits():
    waiting = replace(plan(), sources=tuple(replace(each, waits=True) for each in plan().sources))
    said = moves_on(waiting, clock())
    assert said == "a record of any source moves it on; `tidemark flush` closes what is open"


def test_clocks_are_a_table_and_each_cure_is_said_once():
    clocks = [
        clock(moves_on="a record does"),
        clock(partition=10, clock_ms=None, moves_on="a record does"),
    ]
    assert list(clock_lines(clocks, None)) == [
        "operator  partition  clock                          open windows  it waits for",
        "pops              0  2026-03-02T08:00:00.000+00:00             3  waits",
        "pops             10  -                                         3  waits",
        "a record does",
    ]


def test_no_clock_is_said_too():
    assert list(clock_lines([], None)) == ["no clock"]
    assert list(clock_lines([], T)) == ["no clock is before 2026-03-02T08:00:00.000+00:00"]


def test_an_operator_that_is_not_there_is_refused_with_those_that_are():
    asked = ["why", "open", "tests.kafka.pipelines.pops", "--operator", "pop"]
    error = CliRunner().invoke(app, asked).exception
    assert str(error).startswith("--operator 'pop': the operators of ")
    assert "pops" in str(error)
