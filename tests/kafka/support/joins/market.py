"""Trades and quotes for the pipeline ``tabled``, and the answers of its table."""

import json
import random
from collections.abc import Sequence
from typing import Any

from confluent_kafka import Producer

from tests.kafka.pipelines.chains import tabled
from tests.kafka.support.stack import Stack
from tidemark.core.operators.ports import ROWS
from tidemark.local.run import LocalRun

START_MS = 1_700_000_000_000
SYMBOLS = [f"s{number}" for number in range(8)]
Answers = list[tuple[str, int, int | None]]


def quoted(seed: int) -> list[bytes]:
    """Return quotes of two minutes in the order of symbols, as a compacted topic has them."""
    draw = random.Random(seed)
    return [
        quote(symbol, at_ms + draw.randrange(4_000), at_ms // 1_000, draw.choice("uuuud"))
        for symbol in SYMBOLS
        for at_ms in range(0, 120_000, 5_000)
    ]


def quote(symbol: str, at_ms: int, price: int, op: str = "u") -> bytes:
    return _record(symbol=symbol, at=START_MS + at_ms, price=price, op=op)


def traded(seed: int, number: int = 300) -> list[bytes]:
    """Return trades of two minutes, in the order of time."""
    draw = random.Random(seed)
    return [
        trade(draw.choice(SYMBOLS), index * 120_000 // number, index) for index in range(number)
    ]


def trade(symbol: str, at_ms: int, size: int = 1) -> bytes:
    return _record(symbol=symbol, at=START_MS + at_ms, size=size)


def _record(**values: Any) -> bytes:
    return json.dumps(values).encode()


ENDS = (trade("end", 400_000), quote("end", 400_000, 1))
"""A trade and a quote that let the clock pass all others."""


def produced(stack: Stack, topic: str, values: Sequence[bytes]) -> None:
    stack.produce([(0, None, value) for value in values], f"{stack.name}-{topic}")


def deleted(stack: Stack, key: bytes | None, at_ms: int) -> None:
    """Write a record without a value, with a timestamp; without one, Kafka takes its clock."""
    producer = Producer({"bootstrap.servers": stack.config.bootstrap_servers})
    at_ms += START_MS
    producer.produce(f"{stack.name}-quotes", None, key, 0, timestamp=at_ms)
    assert producer.flush(30) == 0


def answers(rows: list[dict[str, Any]]) -> Answers:
    """Return the price of each trade but the last; none is answered twice."""
    found = [(row["symbol"], row["at"] - START_MS, row["price"]) for row in rows]
    assert len({row["_id"] for row in rows}) == len(rows)
    return sorted(each for each in found if each[0] != "end")


def in_process(quotes: Sequence[bytes], trades: Sequence[bytes], keep: str = "20s") -> Answers:
    """Return the answers of one process that has the whole table first."""
    run = LocalRun(tabled.build("tabled", keep=keep).plan())
    list(run.run({"tabled-quotes": quotes, "tabled-trades": trades}))
    return answers(run.published["priced"].every(ROWS).to_dicts())
