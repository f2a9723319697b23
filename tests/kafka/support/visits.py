"""Visits of several people: the records of the tests of all window kinds.

They come out of order, some too late, some without a use.
"""

import json
import random
from typing import Any

T = 1_774_738_680_000  # 2026-03-28T22:58:00Z: in two minutes the day begins that has 23 hours
DAY = 86_400_000
RECORDS = 1_200


def visits() -> list[bytes]:
    """Return the records: of the first half, of the next day, and one that closes what is open."""
    draw = random.Random(11)
    records = [_visit(draw, n) for n in range(RECORDS)]
    records.append({"who": "end", "at": T + 5 * DAY, "cents": 0, "pause": 1})
    return [json.dumps(record).encode() for record in records]


def _visit(draw: random.Random, n: int) -> dict[str, Any]:
    behind_ms = draw.choice((*[0] * 20, *[700] * 10, 1_500, 3_000, 6_000, 12_000, 40_000))
    day_ms = DAY if n >= RECORDS // 2 else 0
    value = draw.choice((None, *range(20)))
    return {
        "who": draw.choice(("ann", "ann", "bob", "cid", "dörte", 'e"ve', "ann", f"g{n // 60}")),
        "at": T + day_ms + n * 80 + draw.randrange(80) - behind_ms,
        "v": value,
        "x": draw.choice((None, draw.uniform(-50, 50), draw.random() * 1e-9, 0.1)),
        "cents": draw.randrange(-500, 5_000),
        "pause": draw.choice((500, 1_000, 4_000, 9_000)) if draw.randrange(50) else -1,
        "tags": None if value is None else [f"t{value}"] * (value % 3),
        "leaves": draw.randrange(12) == 0,
    }
