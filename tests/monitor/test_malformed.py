"""What the monitor does with a record of the stats topic; a record that is no stats is counted."""

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.game import game
from tests.monitor.samples import stats
from tidemark.monitor.alerts import Thresholds
from tidemark.monitor.history import RINGS
from tidemark.monitor.monitor import Monitor
from tidemark.runtime.service.stats import (
    ClockStats,
    OperatorStats,
    PartitionStats,
    RestoreStats,
    SourceStats,
    encode,
)
from tidemark.runtime.wall_clock import now_ms

SOURCE = SourceStats("raw/0", 5, idle=False, silence_ms=0)
FULL = msgspec.to_builtins(
    stats(
        lag=5,
        partitions=[PartitionStats("raw", 0, 1, 6, 5)],
        sources=[SOURCE],
        operators=[
            OperatorStats("o", "p.log", 5, 0, 1, [ClockStats(0, 5, 1, "raw/0", 3, 9)], [SOURCE])
        ],
        restores=[RestoreStats("changelog", 0, 1, 2, None)],
    )
)


class Tables:
    """The tables of an app, in memory; values must be JSON, as in Faust's changelogs."""

    class Table(dict[str, Any]):
        def __init__(self, *_: object, **__: object) -> None:
            super().__init__()

        def __setitem__(self, key: str, value: Any) -> None:
            super().__setitem__(key, msgspec.json.decode(msgspec.json.encode(value)))


def monitor() -> Monitor:
    return Monitor(Tables(), game.plan(), Thresholds(lag_records=1, stuck_ms=1))  # type: ignore[arg-type]


def test_a_process_that_stops_in_order_is_gone_with_its_alerts():
    watching = monitor()
    watching.take(stats(at_ms=now_ms(), dead_letters=1))
    assert [alert["kind"] for alert in watching.status()["alerts"]] == ["dead letters"]
    watching.read(encode(stats(at_ms=now_ms(), dead_letters=1, stopped=True)))
    shown = watching.status()
    assert (shown["processes"], shown["alerts"]) == ([], [])
    assert not watching._alerts
    watching.take(stats(at_ms=now_ms(), started_at_ms=2))
    assert len(watching.status()["processes"]) == 1


@pytest.mark.parametrize(
    "value",
    [
        None,
        b"",
        b"null",
        b"{}",
        b"\xff",
        b'{"version":' + b"[" * 100_000,
        encode(stats(sources=[SourceStats("raw", 5, idle=False, silence_ms=0)])),
        encode(stats(rows_in=2**64)),
    ],
    ids=lambda value: repr(value)[:20],
)
def test_a_record_that_is_no_stats_is_skipped_and_counted(value):  # D13
    watching = monitor()
    watching.read(value)
    watching.take(stats(at_ms=now_ms()))
    shown = watching.status()
    assert shown["skipped_records"] == 1
    assert len(shown["processes"]) == 1


def test_restarts_of_a_process_are_counted_also_from_tables_of_an_earlier_version():
    watching = monitor()
    watching.take(stats(at_ms=now_ms()))
    del watching._latest["windowing/0"]["restarts"]
    assert watching.status()["processes"][0]["restarts"] == 0
    for started_at_ms in (2, 2, 3):
        watching.take(stats(at_ms=now_ms(), started_at_ms=started_at_ms))
    assert watching.status()["processes"][0]["restarts"] == 2


def test_a_record_from_the_future_forgets_no_other_process():
    watching = monitor()
    watching.take(stats(at_ms=now_ms()))
    watching.take(stats(at_ms=2**62, service="sink"))
    assert len(watching._latest) == 2


def paths(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = value.items() if isinstance(value, dict) else enumerate(value)
    found = [at] if at else []
    for key, each in inner:
        deeper = isinstance(each, dict | list)
        found += paths(each, (*at, key)) if deeper else [(*at, key)]
    return found


ANYTHING = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False, allow_infinity=False),
    st.text(max_size=5),
    st.just([]),
    st.just({}),
)


@given(st.lists(st.tuples(st.sampled_from(paths(FULL)), ANYTHING), max_size=3))
def test_any_value_anywhere_leaves_the_page_as_it_is(changes):
    watching = monitor()
    changed = copy.deepcopy(FULL)
    for path, value in changes:
        held = changed
        try:
            for step in path[:-1]:
                held = held[step]
            held[path[-1]] = value
        except (KeyError, IndexError, TypeError):
            continue  # an earlier change removed the place
    watching.read(msgspec.json.encode(changed))
    watching.read(msgspec.json.encode(FULL))
    assert watching.dashboard()["graph"]["nodes"]
    assert all(watching.chart(ring) for ring in RINGS)
