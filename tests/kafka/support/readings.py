"""Readings for the pipeline ``in_order``."""

import json
import random

START_MS = 1_700_000_000_000


def readings(count: int = 600) -> list[bytes]:
    """Return readings out of order, with repeated ids and some late, then ones that pass time."""
    draw = random.Random(11)
    times = [
        n * 120_000 // count - (9_000 if draw.random() < 0.02 else draw.randrange(1_900))
        for n in range(count)
    ]
    rows = [(f"i{draw.randrange(60)}", at, draw.randrange(50)) for at in times]
    rows += [(f"end-{at}-{n}", at, n) for at in (300_000, 600_000) for n in range(16)]
    return [
        json.dumps({"id": name, "sensor": f"s{v % 5}", "at": START_MS + at, "v": v})
        .encode()
        for name, at, v in rows
    ]  # fmt: skip
