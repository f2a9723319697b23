"""The raw records of a run, drawn from its seed, each with what must become of it."""

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from tests.chaos.pipelines import END

T = 1_700_000_000_000
STEP_MS = 20
FAR_FUTURE_MS = 4_000_000_000_000  # in 2096

Fate = Literal["passed", "filtered", "dead", "blank"]

NOTHING: tuple[bytes | None, ...] = (None, b"", b"  \n")
BROKEN = (
    b"not json",
    b"\xff\xfe",
    b'["who"]',
    b'{"who":"a","at":"soon"}',
    b'{"who":"a"}',
    b"[" * 300,
)


@dataclass(frozen=True, slots=True)
class Record:
    """A raw record, and its fate."""

    topic: str
    partition: int
    value: bytes | None
    fate: Fate


def draw_records(
    draw: random.Random, count: int, partitions: Mapping[str, Sequence[int]]
) -> list[Record]:
    """Return ``count`` records, then one to each partition that closes all windows.

    ``partitions``: those that get records, by raw topic.
    """
    places = [(topic, number) for topic, numbers in partitions.items() for number in numbers]
    records = []
    for n in range(count):
        topic, number = draw.choice(places)
        value, fate = _drawn(draw, T + n * STEP_MS)
        records.append(Record(topic, number, value, fate))
    return records + list(_closing(places, T + count * STEP_MS + 3_600_000))


def _drawn(draw: random.Random, now_ms: int) -> tuple[bytes | None, Fate]:
    luck = draw.random()
    if luck < 0.01:
        return draw.choice(NOTHING), "blank"
    if luck < 0.03:
        return draw.choice(BROKEN), "dead"
    if luck < 0.035:
        return _encoded(draw, FAR_FUTURE_MS), "dead"
    behind_ms = draw.choice((*[0] * 20, *[600] * 10, 1_500, 3_000, 6_000, 12_000, 40_000))
    at_ms = now_ms + draw.randrange(STEP_MS) - behind_ms
    if luck < 0.08:
        return _encoded(draw, at_ms, kind="skip"), "filtered"
    return _encoded(draw, at_ms), "passed"


def _encoded(draw: random.Random, at_ms: int, **others: Any) -> bytes:
    keys = ("ann", "bob", "dörte", 'e"ve', f"g{draw.randrange(40)}", f"t{at_ms // 20_000}")
    return json.dumps(
        {
            "who": draw.choice(keys),
            "team": f"team {draw.randrange(6)}",
            "at": at_ms,
            "v": draw.choice((None, *range(20))),
            "x": draw.choice((None, draw.uniform(-50, 50), draw.random() * 1e-9, 0.1)),
            **others,
        }
    ).encode()


def _closing(places: Sequence[tuple[str, int]], at_ms: int) -> Iterator[Record]:
    value = json.dumps({"who": END, "team": END, "at": at_ms}).encode()
    for topic, number in places:
        yield Record(topic, number, value, "passed")
