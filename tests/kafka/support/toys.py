"""Orders and payments for the toy operator, out of order, late and without values among them."""

import json
import random
from typing import Any

from tests.kafka.pipelines import toy
from tests.support.toy import ORDERS, PAYMENTS, VALUES
from tidemark.local.run import LocalRun

START_MS = 1_700_000_000_000
CLOSED_MS = START_MS + 400_000
"""Windows that start before this are closed by the records that follow."""

COUNT = 480
ACCOUNTS = 12


def records() -> dict[str, list[bytes]]:
    """Return the values of each side's raw topic, the same at each call."""
    return {side: _side(side) for side in (ORDERS, PAYMENTS)}


def _side(side: str) -> list[bytes]:
    draw = random.Random(side)
    made = []
    for number in range(COUNT):
        late_ms = 30_000 if draw.random() < 0.02 else draw.randrange(1_500)
        value = None if draw.random() < 0.03 else draw.randrange(1, 4)
        made.append(_record(side, draw.randrange(ACCOUNTS), number * 800 - late_ms, value))
    # Every account once more, then twice far ahead: all windows before are over.
    ends = [_record(side, account, 410_000, 1) for account in range(ACCOUNTS)]
    ends += [_record(side, account, 460_000, 1) for account in range(ACCOUNTS)]
    return [*made, *ends]


def _record(side: str, account: int, at_ms: int, value: int | None) -> bytes:
    record = {"account": f"a{account}", "at": START_MS + at_ms, VALUES[side]: value}
    return json.dumps(record).encode()


def in_process(name: str) -> LocalRun:
    """Run the toy over the same records without Kafka."""
    local = LocalRun(toy.first(name).plan())
    sides = {side: f"{name}-{side}" for side in (ORDERS, PAYMENTS)}
    list(local.run({sides[side]: values for side, values in records().items()}))
    return local


def finals(rows: list[dict[str, Any]]) -> dict[tuple[str, int], int]:
    """Return the final balance of each account and window that closes."""
    return {
        (row["account"], row["start"]): row["balance"]
        for row in rows
        if row["final"] and not row.get("end_of_input") and row["start"] < CLOSED_MS
    }
