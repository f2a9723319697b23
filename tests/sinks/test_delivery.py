"""Rows that a sink refuses: found in bulk, written to the dead letters once, at a bounded cost."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import pytest

from examples.game import game
from tests.sinks.contract import AT, opened
from tests.sinks.feeds import PANES, TOPIC_ID, Record, batch, held, pane
from tests.sinks.letters import Letters
from tests.sinks.places import duck_place, sqlite_place
from tidemark.partition import Partition
from tidemark.runtime.service.reasons import ReasonStats
from tidemark.serde.dead_letters import encode_dead_letters
from tidemark.serde.records import DeadLetter
from tidemark.sinks.delivery import Delivery
from tidemark.sinks.rows import decode
from tidemark.sinks.sink import Batch, Move, Position, RefusedError
from tidemark.sinks.table import tables_of

OTHER = replace(PANES, topic="game.other", name="other")
MANY = 2_000


@dataclass
class Refusing:
    """A sink that refuses rows; ``names``: whether it says which."""

    bad: Callable[[Record], bool]
    names: bool
    every_ms: int = 0
    taken: list[Record] = field(default_factory=list)
    tries: int = 0

    def prepare(self, tables: object) -> None: ...

    def positions(self, partitions: object) -> dict[Partition, Position]:
        return {}

    def write(self, batches: Sequence[Batch]) -> None:
        self.tries += 1
        rows = {each.partition: self._bad(each) for each in batches}
        rows = {at: found for at, found in rows.items() if found}
        if rows:
            raise RefusedError("no", rows if self.names else None)
        for each in batches:
            self.taken += each.rows.to_dicts()

    def _bad(self, each: Batch) -> dict[int, str]:
        return {n: "no" for n, row in enumerate(each.rows.to_dicts()) if self.bad(row)}

    def close(self) -> None: ...


def many(bad: Callable[[int], bool]) -> list[Record]:
    return [pane(f"p{n}", 0, 1, -1 if bad(n) else 1) for n in range(MANY)]


@pytest.mark.parametrize("bad", [lambda n: True, lambda n: n % 2 == 0, lambda n: n == 7])
def test_rows_that_a_sink_names_cost_two_tries_however_many_they_are(bad):  # B2
    sink, letters = Refusing(lambda row: row["pops"] < 0, names=True), Letters()
    good = batch([pane("ann", 0, 1)], table=OTHER)
    Delivery(sink, letters).deliver([batch(many(bad)), good])
    assert (sink.tries, letters.writes) == (2, 1)
    wanted = [n for n in range(MANY) if bad(n)]
    assert [letter.offset for letter in letters.written] == wanted
    assert len(sink.taken) == MANY - len(wanted) + 1


def test_counts_ages_bytes_and_reasons_are_those_of_the_rows_that_the_sink_has_taken():
    sink, letters = Refusing(lambda row: row["pops"] < 0, names=True), Letters()
    waited: list[float] = []
    delivery = Delivery(sink, letters, waited.append)
    sent = batch(many(lambda n: n < 3))
    delivery.deliver([sent])
    delivered = delivery.delivered
    assert (delivered.rows, delivered.size_bytes) == (MANY - 3, sum(map(len, sent.values[3:])))
    (latency,) = delivered.latencies(0)
    assert (latency.of, latency.histogram.count) == (PANES.name, MANY - 3)
    assert latency.histogram.counts[-1] == MANY - 3, "the windows end in 1970"
    assert delivery.dead_reasons.stats() == [ReasonStats("no", 3, "sink")]
    assert len(waited) == sink.tries


def test_rows_that_a_sink_does_not_name_are_found_by_halving_after_the_others():  # B2
    sink, letters = Refusing(lambda row: row["pops"] < 0, names=False), Letters()
    good = batch([pane("ann", 0, 1)], table=OTHER)
    Delivery(sink, letters).deliver([batch(many(lambda n: n == 7)), good])
    assert [letter.offset for letter in letters.written] == [7]
    assert sink.taken[0]["player"] == "ann"
    assert sink.tries < 30
    assert len(sink.taken) == MANY


def test_a_letter_that_its_table_refuses_is_not_a_letter_again(caplog):  # B2
    table, *_ = tables_of(game.plan())
    keys, values = encode_dead_letters([DeadLetter("r", "parse", "moves", 0, 7, 0, None, b"x")])
    at, move = Partition(table.topic, 0), Move(None, 1, TOPIC_ID)
    letter = Batch(table, at, move, decode(table, values).rows, [0], keys, values)
    sink, letters = Refusing(lambda _: True, names=False), Letters()
    sink.bad = lambda row: row["reason"] == "r"
    Delivery(sink, letters).deliver([letter])
    assert letters.writes == 0
    assert "table dead_letters refuses 1 dead letters, which stay in the topic" in caplog.text


@pytest.mark.parametrize("made", [sqlite_place, duck_place], ids=["sqlite", "duckdb"])
def test_rows_that_a_database_refuses_are_found_and_the_others_are_there(made, tmp_path):  # B2
    place = made(tmp_path)
    opened(place).close()
    columns = ", ".join(
        f'"{name}" {kind.type}{" NOT NULL" * (name in PANES.key)}'
        for name, kind in _columns(place).items()
    )
    place.run("DROP VIEW pops_latest")
    place.run("DROP VIEW pops_final")
    place.run("DROP TABLE pops")
    place.run(
        f"CREATE TABLE pops ({columns}, note VARCHAR DEFAULT 'x' CHECK (note = 'x'), "
        "CHECK (pops > 0), PRIMARY KEY (window_start, player))"
    )
    sink, letters = opened(place), Letters()
    records = many(lambda n: n % 100 == 3)
    Delivery(sink, letters).deliver([batch(records)])
    assert sink.positions([AT])[AT].next_offset == MANY
    sink.close()
    assert [letter.offset for letter in letters.written] == list(range(3, MANY, 100))
    assert all("CHECK" in letter.reason for letter in letters.written)
    assert letters.writes == 1
    assert place.rows(PANES) == held([each for each in records if each["pops"] > 0])


def _columns(place):
    sink = place.open()
    found = sink.columns("pops")
    sink.close()
    return found
