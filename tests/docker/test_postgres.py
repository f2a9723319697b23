"""PostgreSQL as a sink: the suites of all sinks, and what only PostgreSQL does."""

from dataclasses import replace
from decimal import Decimal
from random import Random
from string import ascii_letters

import polars as pl
import psycopg
import pytest

from tests.sinks.contract import (
    PositionContract,
    ReloadContract,
    SinkContract,
    filled,
    opened,
)
from tests.sinks.databases.contract import DatabaseContract
from tests.sinks.databases.existing import ExistingContract, delivered, table_of
from tests.sinks.databases.remaking import CITIES, RemakeContract, statements
from tests.sinks.feeds import PANES, TOPIC_ID, batch, held, pane, row
from tests.sinks.letters import Letters
from tests.sinks.places import Place
from tidemark.errors import ConfigurationError
from tidemark.sinks.databases.postgres import PostgresSink
from tidemark.sinks.delivery import Delivery
from tidemark.sinks.sink import (
    OvertakenError,
    Position,
    RefusedError,
    Reload,
    TablesStoppedError,
    UnavailableError,
)


class TestPostgres(
    SinkContract,
    PositionContract,
    ReloadContract,
    DatabaseContract,
    RemakeContract,
    ExistingContract,
):
    def test_a_text_with_a_nul_character_is_refused_and_nothing_of_its_batch_taken(self, place):
        sink = opened(place)
        with pytest.raises(RefusedError, match="PostgreSQL: "):
            sink.write([batch([pane("ann", 0, 1), pane("b\0b", 0, 1)])])
        sink.write([batch([pane("ann", 0, 1)])])
        sink.close()
        assert place.rows(PANES) == held([pane("ann", 0, 1)])

    def test_a_sink_writes_on_after_it_was_overtaken_in_its_first_write(self, place):
        sink = opened(place)
        ann, ben = batch([pane("ann", 0, 1)]), batch([pane("ben", 0, 1)], 5, 5, number=1)
        with pytest.raises(OvertakenError):
            sink.write([ann, ben])
        sink.write([ann])
        sink.close()
        assert place.rows(PANES) == held([pane("ann", 0, 1)])

    def test_tables_and_columns_say_what_they_are(self, place):
        opened(place).close()
        asked = "SELECT obj_description('pops'::regclass), col_description('pops'::regclass, 4)"
        assert place.run(asked) == [
            (PANES.comment, "Rows folded into the pane; the highest of a window counts")
        ]

    def test_all_rows_that_are_refused_are_named_at_once(self, place):  # B2
        opened(place).close()
        place.run("ALTER TABLE pops ADD CHECK (pops >= 0)")
        keys = ["a", "b\0", "c", "d" * 9_000, "e"]
        # Random letters, or PostgreSQL compresses the key.
        keys[3] = "".join(Random(0).choices(ascii_letters, k=9_000))
        records = [pane(key, 0, 1, -1 if key == "c" else 1) for key in keys]
        sink, letters = opened(place), Letters()
        Delivery(sink, letters).deliver([batch(records)])
        sink.close()
        reasons = {letter.offset: letter.reason for letter in letters.written}
        assert sorted(reasons) == [1, 2, 3]
        assert "character NUL" in reasons[1]
        assert "check constraint" in reasons[2]
        assert "index row" in reasons[3]
        assert letters.writes == 2
        assert place.rows(PANES) == held([pane("a", 0, 1), pane("e", 0, 1)])

    @pytest.mark.parametrize("constraint", ["NUL", "CHECK"])
    def test_many_rows_that_are_refused_cost_few_transactions(self, place, constraint):  # B2
        opened(place).close()
        place.run("ALTER TABLE pops ADD CHECK (pops > 0)")
        name = "b\0{}" if constraint == "NUL" else "b{}"
        records = [pane(name.format(n), 0, 1, 0) for n in range(5_000)]
        sink, letters = opened(place), Letters()
        asked = (
            "SELECT xact_commit + xact_rollback FROM pg_stat_database "
            "WHERE datname = current_database()"
        )
        sink.run("SELECT pg_stat_force_next_flush()")
        ((before,),) = sink.run(asked)
        Delivery(sink, letters).deliver([batch(records)])
        sink.run("SELECT pg_stat_force_next_flush()")
        ((after,),) = sink.run(asked)
        sink.close()
        assert (len(letters.written), letters.writes) == (5_000, 1)
        assert after - before < 30

    def test_a_generated_column_of_a_name_of_the_pipeline_is_refused(self, place):  # B3
        opened(place).close()
        wider = replace(PANES, columns={**PANES.columns, "best": pl.Int64()})
        place.run("ALTER TABLE pops ADD COLUMN best bigint GENERATED ALWAYS AS (pops * 2) STORED")
        with pytest.raises(ConfigurationError, match="table pops computes column best itself"):
            opened(place, wider)

    def test_grants_and_indexes_stay_through_a_new_column(self, place):  # A9
        opened(place).close()
        place.run("DO 'BEGIN CREATE ROLE reader; EXCEPTION WHEN duplicate_object THEN END'")
        for name in ("pops", "pops_latest", "pops_final"):
            place.run(f"GRANT SELECT ON {name} TO reader")
        place.run("CREATE INDEX own_index ON pops (pops)")
        wider = replace(PANES, columns={**PANES.columns, "best": pl.Int64()})
        opened(place, wider).close()
        granted = "has_table_privilege('reader', 'pops{}', 'SELECT')"
        asked = ", ".join(granted.format(end) for end in ("", "_latest", "_final"))
        assert place.run(f"SELECT {asked}") == [(True, True, True)]
        assert place.run("SELECT to_regclass('own_index') IS NOT NULL") == [(True,)]
        assert place.run("SELECT best FROM pops_latest") == []

    def test_grants_and_indexes_are_made_again_with_the_table(self, place):
        opened(place).close()
        place.run("DO 'BEGIN CREATE ROLE reader; EXCEPTION WHEN duplicate_object THEN END'")
        for name in ("pops", "pops_latest", "pops_final"):
            place.run(f"GRANT SELECT ON {name} TO reader")
        place.run("GRANT SELECT ON pops TO PUBLIC")
        place.run("CREATE INDEX own_index ON pops (pops)")
        opened(place, CITIES).close()
        granted = "has_table_privilege('reader', 'pops{}', 'SELECT')"
        asked = ", ".join(granted.format(end) for end in ("", "_latest", "_final"))
        assert place.run(f"SELECT {asked}") == [(True, True, True)]
        assert place.run("SELECT to_regclass('own_index') IS NOT NULL") == [(True,)]
        assert place.run("SELECT city FROM pops_latest") == []

    @pytest.mark.parametrize(
        ("made", "named"),
        [
            ("CREATE VIEW own AS SELECT player FROM pops_latest", "view own depends on"),
            ("CREATE MATERIALIZED VIEW own AS SELECT pops FROM pops", "own depends on table pops"),
            ("ALTER TABLE pops ADD CHECK (pops > 0)", "constraint pops_pops_check"),
            ("CREATE STATISTICS own ON pops, revision FROM pops", "statistics own"),
            ("GRANT SELECT (pops) ON pops TO PUBLIC", "grants on column pops"),
            ("CREATE INDEX own ON pops (player)", "column .player. does not exist"),
        ],
    )
    def test_objects_of_others_stop_a_table_alone(self, place, made, named):
        filled(place, batch([pane("ann", 0, 1)]))
        place.run(made)
        other = replace(PANES, topic="game.other", name="other")
        sink = place.open()
        with pytest.raises(TablesStoppedError, match=named) as raised:
            sink.prepare([CITIES, other])
        assert "HINT" not in str(raised.value)
        sink.write([batch([pane("ann", 0, 1)], table=other)])
        assert place.run("SELECT player FROM pops") == [("ann",)]
        for statement in statements(raised.value):
            place.run(statement)
        sink.prepare([CITIES, other])
        assert place.run("SELECT city FROM pops_latest") == []
        sink.close()

    def test_rows_go_to_a_table_of_another_schema_with_its_own_key(self, place, tmp_path):
        place.run("DROP SCHEMA IF EXISTS metrics CASCADE")
        place.run("CREATE SCHEMA metrics")
        place.run("CREATE TYPE metrics.mood AS ENUM ('good')")
        place.run(
            """
            CREATE TABLE metrics.traffic (
                id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, player uuid, code char(3),
                bucket timestamp(0) NOT NULL, until timestamptz, n integer, mean real,
                euros numeric(5,1), names json, top jsonb, added timestamptz DEFAULT now(),
                mood metrics.mood, CONSTRAINT one UNIQUE (bucket, player)
            )
            """
        )
        names = "window_start = 'bucket', window_end = 'until', pops = 'n', mean = 'mean'"
        text = (
            "[pops]\nschema = 'metrics'\ntable = 'traffic'\n"
            f"columns = {{ player = 'player', {names}, euros = 'euros', names = 'names', "
            "top = 'top', timing = 'code' }"
        )
        one, two = (f"0000000{n}-0000-4000-8000-000000000000" for n in (1, 2))
        records = [
            pane(one, 1_000, 1, 5, timing="abc"),
            pane(one, 1_000, 2, 6, timing="abc", euros="-3.40", mean=1e10),
            pane("ann", 1_000, 1, timing="abc"),
            pane(two, 1_001, 1, timing="abc"),
            pane(two, 1_000, 1),
            pane(two, 1_000, 1, 2**31, timing="abc"),
            pane(two, 1_000, 1, timing="abc", mean=0.123456789),
            pane(two, 1_000, 1, timing="abc", euros="0.05"),
        ]
        table = table_of(tmp_path, text)
        for _ in range(2):
            sink = opened(place, table)
            sink.close()
        letters = delivered(place, table, records)
        reasons = {letter.offset: letter.reason for letter in letters.written}
        assert list(reasons) == [2, 3, 4, 5, 6, 7]
        assert "player: not a UUID" in reasons[2]
        assert "bucket: not a multiple of 1000 ms" in reasons[3]
        assert "code: a text that has not 3 characters" in reasons[4]
        assert "n: not an integer from" in reasons[5]
        assert "mean: not a number of single precision" in reasons[6]
        assert "euros: not a number with at most 4 digits before the point and 1" in reasons[7]
        assert place.run(
            "SELECT id > 0, player::text, bucket::text, extract(epoch FROM until), n, mean, "
            "euros, names::text, top->0->>'value', added IS NOT NULL, mood FROM metrics.traffic"
        ) == [
            (True, one, "1970-01-01 00:00:01", 61, 6, 1e10, Decimal("-3.4"), '["a",null]', "x",
             True, None)
        ]  # fmt: skip
        wrong = table_of(tmp_path, text.replace("'code'", "'mood'"))
        with pytest.raises(
            TablesStoppedError, match=r"column mood with type metrics\.mood, but it needs"
        ):
            opened(place, wrong)

    def test_a_missing_right_on_one_table_stops_it_alone(self, place):  # B5
        other = replace(PANES, topic="game.other", name="other")
        sink = place.open()
        sink.prepare([PANES, other])
        place.run("DO 'BEGIN CREATE ROLE poor; EXCEPTION WHEN duplicate_object THEN END'")
        ((schema,),) = sink.run("SELECT current_schema()")
        place.run(f"GRANT USAGE ON SCHEMA {schema} TO poor")
        place.run("GRANT ALL ON tidemark_positions, other TO poor")
        sink.run("SET ROLE poor")
        both = [batch([pane("ann", 0, 1)]), batch([pane("ann", 0, 1)], table=other)]
        with pytest.raises(TablesStoppedError, match="permission denied") as raised:
            sink.write(both)
        assert list(raised.value.reasons) == ["pops"]
        sink.write(both[1:])
        begin = {both[0].partition: Position(7, TOPIC_ID, 5)}
        with pytest.raises(TablesStoppedError, match="permission denied"):
            sink.reload([Reload(PANES, begin, empties=True)])
        sink.close()
        assert place.rows(other) == [row(pane("ann", 0, 1))]

    def test_long_names_start_again_and_longer_ones_never(self, place):  # D1
        table = replace(PANES, name="t" * 56, columns={**PANES.columns, "c" * 63: pl.Int64()})
        for n in range(2):
            sink = opened(place, table)
            sink.write([batch([pane("ann", 0, n + 1)], n, n or None, table=table)])
            sink.close()
        assert place.run(f"SELECT count(*) FROM {'t' * 56}_latest") == [(1,)]
        with pytest.raises(ConfigurationError, match="has 64 bytes; PostgreSQL takes 63"):
            opened(place, replace(PANES, columns={**PANES.columns, "c" * 64: pl.Int64()}))

    def test_a_table_that_is_gone_is_tried_again_and_a_missing_right_is_not(self, place):  # B5
        sink = opened(place)
        place.run("DROP TABLE pops CASCADE")
        with pytest.raises(UnavailableError, match="does not exist"):
            sink.write([batch([pane("ann", 0, 1)])])
        sink.prepare([PANES])
        sink.write([batch([pane("ann", 0, 1)])])
        place.run("DO 'BEGIN CREATE ROLE poor; EXCEPTION WHEN duplicate_object THEN END'")
        ((schema,),) = sink.run("SELECT current_schema()")
        sink.run(f"GRANT USAGE ON SCHEMA {schema} TO poor")
        sink.run("SET ROLE poor")
        with pytest.raises(ConfigurationError, match="permission denied"):
            sink.write([batch([pane("ann", 0, 2)], 1, 1)])
        sink.close()

    def test_a_locked_table_is_a_reason_to_try_again(self, place, monkeypatch):
        monkeypatch.setattr("tidemark.sinks.databases.postgres._TIMEOUTS", "-c lock_timeout=200ms")
        sink = opened(place)
        with psycopg.connect(sink._url) as other:
            other.execute("LOCK TABLE pops IN ACCESS EXCLUSIVE MODE")
            with pytest.raises(UnavailableError, match="lock timeout"):
                sink.write([batch([pane("ann", 0, 1)])])
        sink.write([batch([pane("ann", 0, 1)])])
        sink.close()


def test_an_invalid_address_is_refused_without_its_password():
    with pytest.raises(ConfigurationError, match="TIDEMARK_SINK") as raised:
        PostgresSink("postgresql://ann:secret@host:port:1/db?nonsense=1")
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("part", "wrong", "reason"),
    [
        (":test@", ":secret@", "password authentication failed"),
        ("/test?", "/nowhere?", 'database "nowhere" does not exist'),
        ("//test:", "//nobody:", "authentication failed"),
        ("?options=", "?sslmode=require&options=", "does not support SSL"),
        ("?options=", "?options=-c%20nonsense%3D1%20", "unrecognized configuration parameter"),
    ],
)
def test_what_time_does_not_heal_is_no_reason_to_wait(postgres, part, wrong, reason):  # B5
    url = postgres.url().replace(part, wrong, 1)
    assert url != postgres.url()
    with pytest.raises(ConfigurationError, match=f"TIDEMARK_SINK: .*{reason}") as raised:
        opened(Place(lambda: PostgresSink(url), lambda _: []))
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize("host", ["127.0.0.1:1", "nowhere.invalid"])
def test_a_server_that_is_away_is_waited_for(host):  # B5
    sink = PostgresSink(f"postgresql://test:test@{host}/test")
    with pytest.raises(UnavailableError, match="PostgreSQL: "):
        sink.prepare([PANES])
