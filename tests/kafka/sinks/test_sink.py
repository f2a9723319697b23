"""Results in a database: killed, locked out, fed records that are not of the table."""

import sqlite3
import time
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.pipelines import counted
from tests.kafka.support.stack import Stack, last_panes, move, wait_until
from tidemark.sinks.databases.sql import POSITIONS

T = 1_700_000_000_000
PLAYERS = 7


def _rows(path: Path, statement: str) -> list[tuple[Any, ...]]:
    """Return what a statement finds, nothing before the sink has made its tables."""
    with closing(sqlite3.connect(path)) as db:
        if not db.execute("SELECT * FROM sqlite_master").fetchone():
            return []
        return db.execute(statement).fetchall()


def _ms(instant: str) -> int:
    return round(datetime.fromisoformat(instant).astimezone(UTC).timestamp() * 1_000)


def _table(path: Path, name: str, value: str) -> Mapping[tuple[str, int], int]:
    found = _rows(path, f'SELECT player, window_start, {value} FROM "{name}"')
    return {(player, _ms(start)): n for player, start, n in found}


def _moves(begin: int, end: int):
    """Moves of some players, each tenth late, each hundredth too late."""
    for n in range(begin, end):
        behind_ms = 60_000 if n % 100 == 99 else 4_000 if n % 10 == 9 else 0
        yield 0, None, move(f"p{n % PLAYERS}", T + n * 50 - behind_ms, n)


def _await_table(path: Path, name: str, value: str, panes: Mapping[tuple[str, int], int]) -> None:
    wait_until(lambda: _table(path, name, value) == panes, f"all of {name}")


def _await_more(path: Path, count: int) -> None:
    wait_until(lambda: len(_table(path, "pops", "pops")) > count, "rows in SQLite")


def _lag(stack: Stack) -> str | None:
    return stack.figures("sink").get("lag")


def _await_end(stack: Stack, path: Path, start_ms: int) -> None:
    """Stop all but the sink once the end of input closed the last panes; wait for its rows."""
    last = {(f"p{n}", start_ms) for n in range(PLAYERS)}
    stack.await_results("pops", lambda panes: last <= last_panes(panes, "pops").keys())
    assert set(stack.stop(*stack.plan.services()).values()) == {0}
    for name, value in (("pops", "pops"), ("sessions", "moves")):
        panes = last_panes(stack.results(name), value)
        _await_table(path, name, value, panes)
    late = len(stack.results("pops.late"))
    wait_until(lambda: len(_rows(path, "SELECT * FROM pops_late")) == late, "all late rows")
    wait_until(lambda: _lag(stack) == "0", "a sink without lag")


def test_killing_the_sink_neither_loses_nor_doubles_a_row(broker, tmp_path):
    path = tmp_path / "results.db"
    with Stack(broker, "sunk", TIDEMARK_SINK=f"sqlite:{path}") as stack:
        stack.start(*stack.plan.services(), "sink")
        for part in range(4):
            stack.produce(_moves(part * 500, part * 500 + 500))
            if part in (1, 2):
                before = part * 20
                _await_more(path, before)
                stack.kill("sink")
                stack.start("sink")
        stack.produce([(0, None, b"pop!"), (0, None, move("end", T + 3_600_000))])
        wait_until(lambda: _rows(path, "SELECT * FROM dead_letters") != [], "the dead letter")
        _await_end(stack, path, T + 90_000)
        assert stack.stop("sink") == {"sink": 0}
        panes, sessions = stack.results("pops"), stack.results("sessions")
        late = stack.results("pops.late")
        committed = {topic: len(stack.committed(topic)) for topic in (f"{stack.name}.pops.late",)}
    assert _table(path, "pops", "pops") == last_panes(panes, "pops")
    assert _table(path, "sessions", "moves") == last_panes(sessions, "moves")
    assert late
    offsets = _rows(path, "SELECT raw_offset FROM pops_late ORDER BY 1")
    assert [offset for (offset,) in offsets] == sorted(row["offset"] for row in late)
    assert len(offsets) == sum(committed.values())
    assert _rows(path, "SELECT reason, raw_offset FROM dead_letters") == [
        ("not JSON: invalid character (byte 0)", 2_000)
    ]


@pytest.mark.long
def test_a_sink_that_is_locked_waits_and_goes_on(broker, tmp_path):
    path = tmp_path / "results.db"
    with Stack(broker, "locked", TIDEMARK_SINK=f"sqlite:{path}") as stack:
        stack.start(*stack.plan.services(), "sink")
        stack.produce(_moves(0, 300))
        wait_until(lambda: len(_table(path, "pops", "pops")) > 0, "rows in SQLite")
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("BEGIN EXCLUSIVE")
            stack.produce([*_moves(300, 600), (0, None, move("end", T + 3_600_000))])
            wait_until(lambda: "trying again" in stack.log("sink"), "a log line about the lock")
            db.execute("COMMIT")
        wait_until(lambda: "back again" in stack.log("sink"), "the sink to come back")
        _await_end(stack, path, T + 20_000)
        assert stack.stop("sink") == {"sink": 0}
        panes = stack.results("pops")
    assert _table(path, "pops", "pops") == last_panes(panes, "pops")


@pytest.mark.long
def test_b30_a_locked_database_costs_neither_partitions_nor_a_restart(broker, tmp_path):
    """The lock lasts longer than a group waits for a member that does not poll."""
    path = tmp_path / "results.db"
    env: dict[str, Any] = {"KAFKA_MAX_POLL_INTERVAL_MS": "6000", "TIDEMARK_SINK": f"sqlite:{path}"}
    with Stack(broker, "b30", module=counted, options={"partitions": 2}, **env) as stack:
        stack.start(*stack.plan.services(), "sink")
        stack.start("sink", slot="1")
        stack.await_partitions()
        values = [b'{"k":"k%d","ts":%d,"v":1}' % (n % 10, T + 20 * n) for n in range(500)]
        with closing(sqlite3.connect(path, isolation_level=None)) as db:
            db.execute("BEGIN EXCLUSIVE")
            stack.produce((0, None, value) for value in values)
            stack.produce([(0, None, b'{"k":"_flush","ts":%d,"v":0}' % (T + 60_000))])
            logs = [lambda slot=slot: stack.log("sink", slot) for slot in ("0", "1")]
            wait_until(
                lambda: all("trying again" in log() for log in logs), "a log line about the lock"
            )
            time.sleep(8)
            db.execute("COMMIT")
        counts = 'SELECT k, "count", "sum" FROM "out" ORDER BY k'
        wait_until(lambda: len(_rows(path, counts)) == 10, "all rows")
        assert _rows(path, counts) == [(f"k{n}", 50, 50) for n in range(10)]
        assert all(process.poll() is None for process in stack.processes.values())
        assert sum(log().count("was given") for log in logs) <= 3
        assert set(stack.stop().values()) == {0}


def test_two_sinks_share_the_partitions_and_a_record_that_is_no_pane_dies(broker, tmp_path):
    path = tmp_path / "results.db"
    with Stack(broker, "shared", TIDEMARK_SINK=f"sqlite:{path}") as stack:
        stack.start(*stack.plan.services(), "sink")
        stack.start("sink", slot="1")
        stack.produce(_moves(0, 500))
        stack.produce([(1, b"?", b'{"player":"eve"}')], f"{stack.name}.pops")
        stack.produce([(0, None, move("end", T + 3_600_000))])
        ends = f"SELECT count(*) FROM {POSITIONS}"
        wait_until(lambda: _rows(path, "SELECT * FROM dead_letters") != [], "the dead letter")
        wait_until(lambda: any(p["start"] >= T + 20_000 for p in _panes(stack)), "all panes")
        wait_until(
            lambda: _table(path, "pops", "pops") == last_panes(_panes(stack), "pops"), "all rows"
        )
        assert set(stack.stop().values()) == {0}
        assert _rows(path, ends)[0][0] >= 3
        (letter,) = [each for each in stack.results("dead-letters") if each["stage"] == "sink"]
    assert letter["topic"] == "shared.pops"
    assert letter["reason"] == "column window_start is null"


def test_results_go_to_a_table_that_a_user_has_made(broker, tmp_path):
    path, mapping = tmp_path / "results.db", tmp_path / "mapping.toml"
    mapping.write_text(
        "[pops]\ntable = 'traffic'\n"
        "columns = { player = 'who', window_start = 'bucket', pops = 'n' }\n"
    )
    env: dict[str, Any] = {"TIDEMARK_SINK": f"sqlite:{path}", "TIDEMARK_SINK_MAPPING": str(mapping)}
    with Stack(broker, "mapped", **env) as stack:
        stack.start(*stack.plan.services(), "sink")
        line = 'table traffic has stopped: table "traffic" does not exist: create it'
        wait_until(lambda: line in stack.log("sink"), "a log line about the missing table")
        assert stack.stop("sink") == {"sink": 0}
        with closing(sqlite3.connect(path)) as db, db:
            db.execute(
                "CREATE TABLE traffic (id INTEGER PRIMARY KEY, bucket TIMESTAMP, who VARCHAR(9), "
                "n SMALLINT, UNIQUE (bucket, who))"
            )
        stack.start("sink")
        stack.produce([*_moves(0, 500), (0, None, move("end", T + 3_600_000))])
        wait_until(lambda: any(p["start"] >= T + 20_000 for p in _panes(stack)), "all panes")

        def same() -> bool:
            found = _rows(path, "SELECT who, bucket, n FROM traffic")
            held = {(who, _ms(start)): n for who, start, n in found}
            return held == last_panes(_panes(stack), "pops")

        wait_until(same, "all rows")
        assert set(stack.stop().values()) == {0}


def _panes(stack: Stack):
    return [pane for pane in stack.results("pops") if "start" in pane]
