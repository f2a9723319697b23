"""Inputs that make memory grow in a service without bounds, each with its pipeline.

BENCH_BOMB names the bomb whose pipeline this module has for services.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from tidemark import (
    Pipeline,
    bounded,
    col,
    collect,
    count,
    hopping,
    monotonic,
    on_update,
    sliding,
    tumbling,
)
from tidemark.language.keyed import KeyedStream
from tidemark.language.stream import Stream

START_MS = 1_700_000_000_000
_MB = 10**6

Record = tuple[bytes, bytes]
"""Key and value."""


@dataclass(frozen=True)
class Bomb:
    """An input and the operators that it hits.

    ``operators``: adds the operators to the stream of records.  ``records``: the input.  ``share``:
    the part of the input that is sent, between 0 and 1.  ``codec``: of the raw topic's batches.
    ``members``: of the schema, beside those of ``_record``.  ``service``: of the operators.
    """

    says: str
    operators: Callable[[Stream], object]
    records: Callable[[float], Iterator[Record]]
    codec: str = "lz4"
    members: Mapping[str, Any] = field(default_factory=dict)
    service: str = "windowing"


def _record(key: str, at_ms: int, value: int, pad: str = "") -> Record:
    return key.encode(), msgspec.json.encode({"k": key, "ts": at_ms, "v": value, "pad": pad})


def _compressed(share: float) -> Iterator[Record]:
    pad = "x" * 800_000
    return (_record(f"k{n % 10}", START_MS + n, n, pad) for n in range(int(8_000 * share)))


def _wide(share: float) -> Iterator[Record]:
    pad = "0123456789" * 300_000
    return (_record(f"k{n % 10}", START_MS + n, n, pad) for n in range(int(300 * share)))


def _gaps(share: float) -> Iterator[Record]:
    return (_record("k", START_MS + n * 999_000, n) for n in range(int(5_000 * share)))


def _night(share: float) -> Iterator[Record]:
    keys = int(5_000 * share)
    for at_ms in (0, 900_000, 910_000):
        yield from (_record(f"k{n}", START_MS + at_ms + n // 100, n) for n in range(keys))


def _hot_key(share: float) -> Iterator[Record]:
    return (
        _record("hot" if n % 10 else f"k{n}", START_MS + n, n) for n in range(int(20_000 * share))
    )


def _crowd(share: float) -> Iterator[Record]:
    return (_record("k", START_MS + n * 10, n) for n in range(int(4_000 * share)))


def _jump(share: float) -> Iterator[Record]:
    keys = int(1_000 * share)
    yield from (_record(f"k{n}", START_MS + n, n) for n in range(keys))
    yield _record("last", START_MS + 7_200_000, 0)


def _arrays(share: float) -> Iterator[Record]:
    for n in range(int(30 * share)):
        rows = [{"k": f"k{n}", "ts": START_MS + n, "v": row} for row in range(100_000)]
        yield b"k", msgspec.json.encode(rows)


def _objects(share: float) -> Iterator[Record]:
    items = b",".join([b"{}"] * 1_000_000)
    for n in range(int(100 * share)):
        yield b"k", b'{"k":"k","ts":%d,"items":[%s]}' % (START_MS + n, items)
    yield _record("k", START_MS + 200, 0)


def _missing(share: float) -> Iterator[Record]:
    return ((b"k", b'{"k":"k","ts":%d}' % (START_MS + n)) for n in range(int(100_000 * share)))


def _deep(share: float) -> Iterator[Record]:
    tree = b'{"xs":[' + b",".join([b'{"ys":[[]]}'] * 100_000) + b"]}"
    for n in range(int(100 * share)):
        yield b"k", b'{"k":"k","ts":%d,"tree":%s}' % (START_MS + n, tree)


def _counted(records: KeyedStream, size: str = "1s", *, empty: bool = False) -> None:
    records.window(tumbling(size), empty=empty).aggregate(rows=count()).to("out")


def _paired(records: Stream) -> None:
    orders, payments = (records.filter(col("v") % 2 == n).key_by("k") for n in (0, 1))
    orders.join(payments, keep="1h").to("out")


BOMBS = {
    "compressed": Bomb(
        "8,000 records of 800 kB that compress to 2 MB",
        lambda records: _counted(records.select("k", "v").key_by("k")),
        _compressed,
        "zstd",
    ),
    "wide": Bomb(
        "300 records of 3 MB JSON",
        lambda records: _counted(records.key_by("k")),
        _wide,
    ),
    "arrays": Bomb(
        "3,000,000 rows from 30 arrays that compress to 3 MB",
        lambda records: _counted(records.key_by("k")),
        _arrays,
        "zstd",
    ),
    "objects": Bomb(
        "100 records of 1,000,000 empty objects of 100 members each",
        lambda records: _counted(records.key_by("k")),
        _objects,
        "zstd",
        {"items": [{f"c{n}": int for n in range(100)}]},
    ),
    "missing": Bomb(
        "100,000 records of a few bytes without 300 of their columns",
        lambda records: _counted(records.select("k", "v").key_by("k")),
        _missing,
        "zstd",
        {f"c{n}": int for n in range(300)},
    ),
    "deep": Bomb(
        "100 records of 100,000 lists of lists",
        lambda records: _counted(records.key_by("k")),
        _deep,
        "zstd",
        {"tree": {"xs": [{"ys": [[int]]}]}},
    ),
    "gaps": Bomb(
        "5,000,000 empty panes of one key from 5,000 records",
        lambda records: _counted(records.key_by("k"), empty=True),
        _gaps,
    ),
    "night": Bomb(
        "4,500,000 empty panes that one row makes due",
        lambda records: _counted(records.key_by("k"), empty=True),
        _night,
    ),
    "rolling": Bomb(
        "a rolling list of 18,000 values, published at each row",
        lambda records: records.key_by("k").aggregate(all=collect("v")).to("out"),
        _hot_key,
    ),
    "sliding": Bomb(
        "4,000 rows in each sliding window, published at each update",
        lambda records: (
            records.key_by("k")
            .window(sliding("1h"), trigger=on_update())
            .aggregate(rows=count())
            .to("out")
        ),
        _crowd,
    ),
    "hopping": Bomb(
        "3,600,000 panes of overlapping windows that one row makes due",
        lambda records: (
            records.key_by("k").window(hopping("1h", "1s")).aggregate(rows=count()).to("out")
        ),
        _jump,
    ),
    "join": Bomb(
        "1,000,000 pairs of one key from 2,000 records",
        _paired,
        lambda share: _crowd(share / 2),
        service="joins",
    ),
}


def build(name: str, bomb: str) -> Pipeline:
    """Return the pipeline of a bomb under a name of its own."""
    pipeline = Pipeline(name, partitions=1)
    records = pipeline.source(
        f"{name}-in",
        schema={"k": str, "ts": int, "v": int, "pad": str, **BOMBS[bomb].members},
        event_time="ts",
        watermark=monotonic() if bomb not in ("night",) else bounded("100ms"),
    )
    BOMBS[bomb].operators(records)
    return pipeline


pipeline = build(os.environ.get("BENCH_PIPELINE", "bombs"), os.environ.get("BENCH_BOMB", "gaps"))
