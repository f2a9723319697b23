"""PostgreSQL as a sink: the suites of all sinks, and a pipeline that delivers through faults."""

from datetime import UTC, datetime

import psycopg
import pytest

from tests.kafka.support.stack import Stack, last_panes, move, wait_until
from tests.sinks.contract import DatabaseContract, PositionContract, SinkContract, opened
from tests.sinks.feeds import PANES, batch, held, pane
from tidemark.errors import ConfigurationError
from tidemark.sinks.postgres import PostgresSink
from tidemark.sinks.sink import RefusedError, UnavailableError

T = 1_700_000_000_000
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class TestPostgres(SinkContract, PositionContract, DatabaseContract):
    def test_a_text_with_a_nul_character_is_refused_and_nothing_of_its_batch_taken(self, place):
        sink = opened(place)
        with pytest.raises(RefusedError, match="PostgreSQL: "):
            sink.write([batch([pane("ann", 0, 1), pane("b\0b", 0, 1)])])
        sink.write([batch([pane("ann", 0, 1)])])
        sink.close()
        assert place.rows(PANES) == held([pane("ann", 0, 1)])

    def test_tables_and_columns_say_what_they_are(self, place):
        opened(place).close()
        asked = "SELECT obj_description('pops'::regclass), col_description('pops'::regclass, 4)"
        assert place.run(asked) == [
            (PANES.comment, "Rows folded into the pane; the highest of a window counts")
        ]

    def test_a_locked_table_is_a_reason_to_try_again(self, place, monkeypatch):
        monkeypatch.setattr("tidemark.sinks.postgres._TIMEOUTS", "-c lock_timeout=200ms")
        sink = opened(place)
        with psycopg.connect(sink._url) as other:
            other.execute("LOCK TABLE pops IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(UnavailableError, match="lock timeout"):
                sink.write([batch([pane("ann", 0, 1)])])
        sink.write([batch([pane("ann", 0, 1)])])
        sink.close()


def test_an_address_that_is_none_is_refused_without_its_password():
    with pytest.raises(ConfigurationError, match="TIDEMARK_SINK") as raised:
        PostgresSink("postgresql://ann:secret@host:port:1/db?nonsense=1")
    assert "secret" not in str(raised.value)


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
                wait_until(lambda: "trying again" in stack.log("sink"), "word of the database")
                postgres.start()
                wait_until(lambda: "back again" in stack.log("sink"), "the database again")
        stack.produce([(0, None, move("n\0l", T + 3_600_000)), (0, None, b"pop!")])
        stack.produce([(0, None, move("end", T + 7_200_000))])
        wait_until(lambda: len(rows("SELECT * FROM dead_letters")) >= 2, "the dead letters")
        wait_until(lambda: stack.figures("sink").get("lag") == "0", "a sink without lag")
        assert set(stack.stop().values()) == {0}
        panes, sessions = stack.results("pops"), stack.results("sessions")
        late = stack.results("pops.late")
    for table, column, topic in (("pops", "pops", panes), ("sessions", "moves", sessions)):
        wanted = {at: n for at, n in last_panes(topic, column).items() if at[0] != "n\0l"}
        found = rows(f"SELECT player, window_start, {column} FROM {table}")
        assert {(player, _ms(start)): n for player, start, n in found} == wanted
    offsets = rows("SELECT raw_offset FROM pops_late ORDER BY 1")
    assert [offset for (offset,) in offsets] == sorted(row["offset"] for row in late)
    stages = {stage for (stage,) in rows("SELECT stage FROM dead_letters")}
    assert stages == {"parse", "sink"}


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
