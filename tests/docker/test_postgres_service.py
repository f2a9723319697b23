"""The sink service into PostgreSQL, with a pipeline on Kafka."""

import json
from datetime import UTC, datetime
from typing import Any

from tests.kafka.pipelines import changing
from tests.kafka.support.stack import Stack, last_panes, move, wait_until
from tests.kafka.support.tables import present
from tidemark.runtime.keyed.fresh_start import Scope
from tidemark.runtime.keyed.reset import Reset

T = 1_700_000_000_000
OUTPUTS = (("pops", "pops"), ("sessions", "moves"))
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def test_rows_are_those_of_the_topics_through_kills_and_a_restart_of_the_database(broker, postgres):
    postgres.run(postgres.url(), "CREATE SCHEMA sunk")
    url = postgres.url("sunk")

    def rows(statement: str):
        return postgres.run(url, statement)

    with Stack(broker, "sunk", TIDEMARK_SINK=url) as stack:
        stack.start(*stack.plan.services(), "sink")
        wait_until(lambda: "was given" in stack.log("sink"), "partitions for the sink")
        for part in range(5):
            stack.produce(_moves(part * 500, part * 500 + 500))
            _await_more(rows, part * 20)
            if part in (1, 2):
                stack.kill("sink")
                stack.start("sink")
            if part == 3:
                postgres.stop()
                stack.produce(_moves(5_000, 5_200))
                wait_until(
                    lambda: "trying again" in stack.log("sink"), "a log line about the database"
                )
                postgres.start()
                wait_until(lambda: "back again" in stack.log("sink"), "the database again")
        stack.produce([(0, None, move("n\0l", T + 3_600_000)), (0, None, b"pop!")])
        stack.produce([(0, None, move("end", T + 7_200_000))])
        wait_until(lambda: len(rows("SELECT * FROM dead_letters")) >= 2, "the dead letters")
        for output in ("pops", "sessions"):
            stack.await_results(output, lambda panes: any(p["player"] == "n\0l" for p in panes))
        assert set(stack.stop(*stack.plan.services()).values()) == {0}
        wanted = {name: _wanted(stack, name, column) for name, column in OUTPUTS}
        late = sorted(row["offset"] for row in stack.results("pops.late"))
        wait_until(lambda: {n: _found(rows, n, c) for n, c in OUTPUTS} == wanted, "all panes")
        wait_until(lambda: _late(rows) == late, "all late rows")
        wait_until(lambda: stack.figures("sink").get("lag") == "0", "a sink without lag")
        assert stack.stop("sink") == {"sink": 0}
    assert {name: _found(rows, name, column) for name, column in OUTPUTS} == wanted
    assert _late(rows) == late
    stages = {stage for (stage,) in rows("SELECT stage FROM dead_letters")}
    assert stages == {"parse", "sink"}


def test_a_changed_key_stops_one_table_until_its_views_are_set_aside(broker, postgres):
    postgres.run(postgres.url(), "CREATE SCHEMA rekeyed")
    url = postgres.url("rekeyed")

    def rows(statement: str):
        return postgres.run(url, statement)

    options: dict[str, Any] = {"outputs": {"a": {"key": ["player", "score"]}, "b": {}}}
    with Stack(broker, "rekeyed-pg", module=changing, TIDEMARK_SINK=url) as stack:
        stack.start("ingest", "windowing", "sink", TEST_OPTIONS='{"outputs": {"a": {}, "b": {}}}')
        stack.produce([*_moves(0, 300), (0, None, move("end", T + 3_600_000))])
        wait_until(lambda: min(_held(rows, "a"), _held(rows, "b")) > 0, "rows of both")
        rows("CREATE VIEW own AS SELECT player, n FROM a_latest")
        stack.stop("ingest", "windowing", "sink")
        plan = changing.build(stack.name, **options).plan()
        Reset(stack.config, stack.admin, Scope(plan, only=("a",))).run()
        stack.start("ingest", "windowing", "sink", TEST_OPTIONS=json.dumps(options))
        wait_until(lambda: "table a has stopped" in stack.log("sink"), "the stop")
        (line,) = (each for each in stack.log("sink").splitlines() if "within a minute: " in each)
        assert "view own depends on view a_latest" in line
        before = _held(rows, "b")
        stack.produce([*_moves(100_000, 100_300), (0, None, move("end", T + 7_200_000))])
        wait_until(lambda: _held(rows, "b") > before, "rows of the other table")
        statements = line.partition("within a minute: ")[2].partition(";. ")[0]
        for statement in statements.split("; "):
            rows(statement)
        assert stack.stop("sink") == {"sink": 0}
        stack.start("sink", TEST_OPTIONS=json.dumps(options))
        wait_until(lambda: _keys(rows) == _topic_keys(stack), "the table of the new key")
        assert rows("SELECT count(*) FROM own") > [(0,)]
        assert set(stack.stop().values()) == {0}


def _wanted(stack: Stack, name: str, column: str):
    panes = last_panes(stack.results(name), column)
    return {at: n for at, n in panes.items() if at[0] != "n\0l"}


def _found(rows, name: str, column: str):
    found = rows(f"SELECT player, window_start, {column} FROM {name}")
    return {(player, _ms(start)): n for player, start, n in found}


def _late(rows) -> list[int]:
    return [offset for (offset,) in rows("SELECT raw_offset FROM pops_late ORDER BY 1")]


def _held(rows, table: str) -> int:
    found = rows(f"SELECT to_regclass('{table}') IS NOT NULL")[0][0]
    return int(rows(f"SELECT count(*) FROM {table}")[0][0]) if found else 0


def _keys(rows):
    if not rows("SELECT to_regclass('a') IS NOT NULL")[0][0]:
        return None
    found = rows("SELECT player, score, window_start, n FROM a")
    return {(player, score, _ms(start), n) for player, score, start, n in found}


def _topic_keys(stack: Stack):
    panes = present(stack, "a")
    return {(pane["player"], pane["score"], pane["start"], pane["n"]) for pane in panes}


def _await_more(rows, count: int) -> None:
    wait_until(lambda: _count(rows) > count, "rows in PostgreSQL")


def _count(rows) -> int:
    return int(rows("SELECT count(*) FROM pops")[0][0])


def _moves(begin: int, end: int):
    """Moves of some players, each tenth late, each hundredth too late."""
    for n in range(begin, end):
        behind_ms = 60_000 if n % 100 == 99 else 4_000 if n % 10 == 9 else 0
        yield 0, None, move(f"p{n % 7}", T + n * 50 - behind_ms, n)


def _ms(instant: datetime) -> int:
    return round((instant - EPOCH).total_seconds() * 1_000)
