"""Random chains of windows and of late rows.

What happens to them: rows, silence, flushes, crashes.
"""

from collections.abc import Sequence
from typing import Any

import polars as pl
from hypothesis import strategies as st

from tests.oracles.chain import Row, Stage, Windows
from tests.oracles.clock import Table, heard
from tests.support.chain import results_of, window
from tidemark import Pipeline, bounded, col, count
from tidemark import sum as total
from tidemark.core.time.segment import is_operator_source
from tidemark.language.aggregated import AggregatedStream
from tidemark.language.keyed import KeyedStream
from tidemark.testing import InProcess

SECOND, HOUR = 1000, 3_600_000
LONG = "300d"

WINDOWS = st.one_of(
    st.builds(lambda n: Windows("hopping", n * SECOND, n * SECOND), st.integers(3, 12)),
    st.builds(
        lambda n, m: Windows("hopping", n * m * SECOND, n * SECOND),
        st.integers(2, 5),
        st.integers(2, 3),
    ),
    st.builds(lambda n: Windows("sliding", n * SECOND), st.integers(1, 6)),
    st.builds(lambda n: Windows("session", n * SECOND), st.integers(2, 9)),
    st.just(Windows("same", 0)),
)
DAYS = st.one_of(
    st.just(Windows("day", 0)),
    st.builds(lambda n: Windows("hopping", n * HOUR, n * HOUR), st.sampled_from([5, 24, 48])),
    st.builds(lambda n: Windows("session", n * HOUR), st.integers(5, 30)),
)
KEYS = st.sampled_from(["same", "value", "all"])


HOPPING = Windows("hopping", 6 * SECOND, 2 * SECOND)


def chains(windows, unit_ms) -> st.SearchStrategy[tuple[Stage, ...]]:
    lateness = st.sampled_from([0, 0, 3 * unit_ms])
    plain = (st.just("final"), st.just("close"))
    stage = st.builds(Stage, windows, lateness, st.integers(1, 2), KEYS, *plain)
    return st.lists(stage, min_size=2, max_size=3).map(tuple)


def build(stages: tuple[Stage, ...], partitions: int, unit_ms: int) -> Pipeline:
    pipeline = Pipeline("chain", partitions)
    schema = {"key": str, "value": int, "at": int}
    stream: Any = pipeline.source(
        "rows", schema=schema, event_time="at", watermark=bounded(f"{2 * unit_ms}ms")
    )
    results_of(stream.key_by("key"), stages).to("out")
    return pipeline


def normal(stages: tuple[Stage, ...]) -> tuple[Stage, ...]:
    """Return a chain without stages that keep a key or windows which are not there."""
    before = Stage(Windows("", 0), key="all")
    chain: list[Stage] = []
    for stage in stages:
        key = "value" if before.key == "all" and stage.key == "same" and chain else stage.key
        windows = stage.windows
        if windows.kind == "same":
            shared = before.windows.kind in ("hopping", "same")
            windows = before.windows._replace(kind="same") if shared else HOPPING
        before = stage._replace(windows=windows, key=key)
        chain.append(before)
    return tuple(chain)


@st.composite
def updating(draw: st.DrawFn, windows: st.SearchStrategy[Windows], unit_ms: int) -> Any:
    """Draw a chain of which the first stage, and perhaps others, hands on every result."""
    chain: list[Stage] = []
    for number, stage in enumerate(normal(draw(chains(windows, unit_ms)))):
        over_updates = number > 0 and chain[-1].after == "every"
        after = "every" if number == 0 else draw(st.sampled_from(["final", "every"]))
        if over_updates:
            triggers = ["close", "close", "final", "update"]
        elif stage.windows.kind == "session":
            triggers = ["close", "close", "update"]
        else:
            triggers = ["close", "close", "update", "rows", "time"]
        if stage.lateness_ms and not over_updates:
            triggers.append("late")
        chain.append(stage._replace(after=after, trigger=draw(st.sampled_from(triggers))))
    return tuple(chain)


ROWS = st.tuples(st.sampled_from("abc"), st.integers(-4, 6), st.integers(0, 5))
RUNNING = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 1), st.lists(ROWS, min_size=1, max_size=6)),
    st.tuples(st.just("idle"), st.integers(0, 1), st.integers(10, 30)),
    st.tuples(st.just("flush"), st.just(0), st.integers(-5, 30)),
)
ACTIONS = st.one_of(
    RUNNING,
    RUNNING,
    st.tuples(st.just("crash"), st.sampled_from(["windowing", "sessions"]), st.just(0)),
)


def happen(run: InProcess, actions: Sequence[Any], unit_ms: int) -> None:
    """Let ``ACTIONS`` happen, and then so long a silence that all windows close."""
    services = {each.service for each in run.plan.operators}
    now = 0
    for action, at, what in actions:
        if action == "send":
            records = []
            for key, step, value in what:
                now += step
                records.append({"key": key, "at": now * unit_ms, "value": value})
            run.send("rows", *records, partition=at % run.raw_partitions)
        elif action == "idle":
            silence_ms = max(what * unit_ms, 10_000)
            run.idle("rows", f"{silence_ms}ms", partition=at % run.raw_partitions)
        elif action == "flush":
            run.flush((now + what) * unit_ms)
        elif at in services:
            run.crash(at)
            run.restart(at)
    for partition in range(run.raw_partitions):
        run.idle("rows", LONG, partition=partition)


def raw_rows(run: InProcess) -> list[Row]:
    """Return the rows of the raw topic, with their W."""
    first = run.plan.operators[0]
    segments = [
        [s for s in log if not any(is_operator_source(mark.source) for mark in s.sources)]
        for (topic, _), log in run._log.items()
        if topic == first.log
    ]
    return [
        Row(row.at_ms, row.key, row.value or 0, row.w_ms)
        for log in segments
        for step in heard(log, Table(["rows"]))
        for row in step.rows
    ]


LATE_ROWS = st.tuples(st.sampled_from("abc"), st.integers(-40, 25), st.integers(0, 5))
"""Key, step in time and value: many rows come far behind others."""

LATE_ACTIONS = st.one_of(
    st.tuples(st.just("send"), st.integers(0, 1), st.lists(LATE_ROWS, min_size=1, max_size=8)),
    st.tuples(st.just("idle"), st.integers(0, 1), st.integers(10, 30)),
    st.tuples(st.just("crash"), st.sampled_from(["windowing", "sessions"]), st.just(0)),
)


def late_stages(windows: st.SearchStrategy[Windows], unit_ms: int) -> st.SearchStrategy[Any]:
    lateness = st.sampled_from([0, 4, 15, 60]).map(lambda units: units * unit_ms)
    kinds = windows.filter(lambda each: each.kind != "same")
    stage = st.builds(Stage, kinds, lateness, st.integers(1, 2), st.sampled_from(["same", "value"]))
    return st.lists(stage, min_size=2, max_size=3).map(tuple)


def _windowed(keyed: KeyedStream, stage: Stage) -> AggregatedStream:
    windows = keyed.window(window(stage.windows), allowed_lateness=f"{stage.lateness_ms}ms")
    return windows.aggregate(n=count(), total=total("value"))


def _kept_key(stage: Stage) -> pl.Expr:
    """Return the key of late rows in the windows after those of a stage."""
    return col("key") if stage.key == "same" else (col("value") % 3).cast(pl.String)


def build_late(chain: tuple[Stage, ...], partitions: int, unit_ms: int) -> Pipeline:
    """Each stage reads the late rows of the one before; windows of the last feed others, too."""
    pipeline = Pipeline("late", partitions)
    schema = {"key": str, "value": int, "at": int}
    watermark = bounded(f"{2 * unit_ms}ms")
    stream: Any = pipeline.source("rows", schema=schema, event_time="at", watermark=watermark)
    keyed = stream.key_by("key")
    for number, stage in enumerate(chain):
        found = _windowed(keyed, stage)
        found.to(f"out{number}")
        if number < len(chain) - 1:
            keyed = found.late.select(key=_kept_key(stage), value=col("value")).key_by("key")
    rows = found.select(key=col("key"), value=col("total")).key_by("key")
    results_of(rows, [summing(unit_ms)]).to("sums")
    return pipeline


def summing(unit_ms: int) -> Stage:
    return Stage(Windows("hopping", 20 * unit_ms, 20 * unit_ms))
