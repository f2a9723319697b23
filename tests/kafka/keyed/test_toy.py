"""The toy operator on Kafka, killed, with a sink; and a second pipeline that its results feed."""

import sqlite3
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.kafka.pipelines import toy
from tests.kafka.support.stack import Stack, wait_until
from tests.kafka.support.toys import CLOSED_MS, finals, in_process, records
from tests.support.toy import ORDERS, PAYMENTS

CHUNK = 101
"""Records of a side between two kills; five of them are all."""


def lates(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    return sorted((row["offset"], row["late_by_ms"]) for row in rows)


def table(path: Path) -> dict[tuple[str, int], int]:
    """Return the final balances that the sink has written."""
    with closing(sqlite3.connect(path)) as database:
        found = database.execute(
            "SELECT account, unixepoch(window_start) * 1000, balance FROM balances WHERE final"
        )
        return {(row[0], row[1]): row[2] for row in found if row[1] < CLOSED_MS}


def test_the_toy_is_killed_and_its_results_feed_a_second_pipeline(broker, tmp_path):
    expected = in_process("toy").published["accounts"]
    wanted = finals(expected.every("balances").to_dicts())
    path = tmp_path / "toy.db"
    env: dict[str, Any] = {"TIDEMARK_SNAPSHOT_COMMITS": "2", "TIDEMARK_SINK": f"sqlite:{path}"}
    options = {"stage": 2}
    with (
        Stack(broker, "toy", module=toy, **env) as first,
        Stack(broker, "toy", 0, toy, options) as second,
    ):
        second.name = "toy-second"
        first.start(*first.plan.services(), "sink")
        second.start()
        sides = {side: iter(values) for side, values in records().items()}
        for step in range(5):
            for side, values in sides.items():
                part = [value for _, value in zip(range(CHUNK), values, strict=False)]
                first.produce(((0, None, value) for value in part), f"toy-{side}")
            if step in (1, 3):
                first.await_results("balances", _more_than(20 * step))
                first.kill("windowing", "ingest" if step == 1 else "sink")
                second.kill("windowing")
                first.start("windowing", "ingest" if step == 1 else "sink")
                second.start("windowing")
        assert not any(list(values) for values in sides.values())
        wait_until(lambda: finals(first.results("balances")) == wanted, "final balances")
        wait_until(lambda: table(path) == wanted, "the table")
        totals = totals_of(wanted)
        wait_until(lambda: closed(second.results("totals"), totals) == totals, "the totals")
        assert second.results("totals.late") == []
        for side in (ORDERS, PAYMENTS):
            found = first.results(f"balances.late-{side}")
            assert found
            assert lates(found) == sorted(
                (row["@offset"], row["late_by_ms"])
                for row in expected.every(f"late-{side}").to_dicts()
            )
        refused = [row for row in first.results("dead-letters") if row["stage"] == "accounts"]
        assert {row["reason"] for row in refused} == {"amount is null", "paid is null"}
        assert Counter(row["offset"] for row in refused) == Counter(
            expected.every("accounts")["@offset"]
        )
        rows = first.results("balances")
        names = Counter(
            (row["account"], row["start"], row["revision"], row["final"]) for row in rows
        )
        assert set(names.values()) == {1}
        assert any(row.get("retracted") for row in rows)


def _more_than(count: int) -> Callable[[list[dict[str, Any]]], bool]:
    return lambda rows: len(rows) > count


def totals_of(balances: Mapping[tuple[str, int], int]) -> dict[tuple[str, int], tuple[int, int]]:
    """Return number and sum of an account's balances in each window of 20 s."""
    totals: dict[tuple[str, int], tuple[int, int]] = {}
    for (account, start_ms), balance in balances.items():
        at = account, (start_ms + 9_999) // 20_000 * 20_000
        windows, total = totals.get(at, (0, 0))
        totals[at] = windows + 1, total + balance
    return totals


def closed(
    panes: list[dict[str, Any]], wanted: Mapping[tuple[str, int], Any]
) -> dict[tuple[str, int], tuple[int, int]]:
    found = {(p["account"], p["start"]): (p["windows"], p["balance"]) for p in panes}
    return {at: pane for at, pane in found.items() if at in wanted}
