"""Generates out-of-order and late events for each example, the same for the same seed.

``python -m examples.events sensors --records 1000 | tidemark try examples.sensors --input -``
"""

import argparse
import json
import random
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime

START_MS = 1_772_438_400_000  # 2026-03-02 08:00 UTC
TAGS = ("#kafka", "#python", "#polars", "#streams", "#Ebbe", "#flut", "#mond", "#strand")

Record = dict[str, object]


def times_ms(draw: random.Random, step_ms: int) -> Iterator[int]:
    """Yield event times about ``step_ms`` apart: most a little out of order, a few very late."""
    now_ms = START_MS
    while True:
        now_ms += draw.randrange(2 * step_ms)
        behind_ms = 2_000 if draw.random() < 0.97 else 900_000
        yield now_ms - draw.randrange(behind_ms)


def game(draw: random.Random) -> Iterator[Record]:
    """Yield moves of fifty players."""
    for at_ms in times_ms(draw, 100):
        yield {
            "player": f"player{draw.randrange(50)}",
            "at": at_ms,
            "score": draw.randrange(100),
            "kind": draw.choice(["pop", "pop", "pop", "miss"]),
        }


def sensors(draw: random.Random) -> Iterator[Record]:
    """Yield readings of twenty sensors, some of which are broken."""
    for at_ms in times_ms(draw, 250):
        sensor = draw.randrange(20)
        celsius = 999.0 if draw.random() < 0.01 else round(draw.gauss(15 + sensor / 2, 3), 2)
        time = datetime.fromtimestamp(at_ms / 1000, UTC).isoformat(timespec="milliseconds")
        yield {"sensor": f"s{sensor:02}", "time": time, "celsius": celsius}


def hashtags(draw: random.Random) -> Iterator[Record]:
    """Yield posts with none to three hashtags."""
    for at_ms in times_ms(draw, 200):
        tags = " ".join(draw.choices(TAGS, k=draw.randrange(4)))
        yield {
            "user": f"user{draw.randrange(200)}",
            "language": draw.choice(["de", "en"]),
            "at": at_ms // 1000,
            "text": f"look {tags}",
        }


def fire(draw: random.Random) -> Iterator[Record]:
    """Yield readings of twelve rooms; rooms burn now and then, and some sensors fall silent."""
    burns_until_ms = dict.fromkeys(range(12), 0)
    silent_until_ms = dict.fromkeys(range(12), 0)
    for at_ms in times_ms(draw, 2_000):
        room = draw.randrange(12)
        if at_ms < silent_until_ms[room]:
            continue
        if draw.random() < 0.01:
            burns_until_ms[room] = at_ms + 240_000
        if draw.random() < 0.01:
            silent_until_ms[room] = at_ms + 900_000
        burns = at_ms < burns_until_ms[room]
        smells = burns and draw.random() < 0.2
        celsius = round(draw.gauss(120 if burns else 21, 8), 1)
        record: Record = {"room": f"room{room:02}", "kind": "smoke", "at": at_ms}
        if not smells:
            record |= {"kind": "temperature", "celsius": celsius, "battery": draw.randrange(100)}
        yield record


EXAMPLES: dict[str, Callable[[random.Random], Iterator[Record]]] = {
    "game": game,
    "sensors": sensors,
    "hashtags": hashtags,
    "fire": fire,
}


def main() -> None:
    """Print records as JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("example", choices=EXAMPLES)
    parser.add_argument("--records", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    events = EXAMPLES[arguments.example](random.Random(arguments.seed))
    for _, event in zip(range(arguments.records), events, strict=False):
        sys.stdout.write(json.dumps(event) + "\n")


if __name__ == "__main__":
    main()
