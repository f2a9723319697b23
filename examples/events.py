"""Generates out-of-order and late events for each example, the same for the same seed.

``python -m examples.events sensors --records 1000 | tidemark try examples.sensors --input -``

``python -m examples.events alarms --rules`` prints the rules that go with the readings of alarms.
"""

import argparse
import json
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import islice

START_MS = 1_772_438_400_000  # 2026-03-02 08:00 UTC
TAGS = ("#kafka", "#python", "#polars", "#streams", "#Ebbe", "#flut", "#mond", "#strand")

Record = dict[str, object]

RawValues = dict[str, list[bytes]]
"""Values by topic; rules come first."""


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


def alarm_rules() -> Iterator[Record]:
    """Yield the rules of rooms: one changes, one ends, one is bad.

    Every minute of two hours a rule is written again as it is, so that time goes on.
    """
    hot: Record = {"name": "hot", "where": "celsius > 80"}
    smoke: Record = {"name": "smoke", "where": "kind == 'smoke'"}
    smoking: list[Record] = [{**hot, "times": [1, None]}, smoke]
    stays: list[Record] = [{**hot, "times": 3, "between": "next"}]
    fading: list[Record] = [
        {"name": "full", "where": "battery > 50"},
        {"name": "empty", "where": "battery < 3", "on": "battery < full.battery - 80"},
    ]
    warmer: Record = {**hot, "where": "celsius > 100", "times": 4}
    changes = {
        0: [("fire", _rule("10m", smoking)), ("hot", _rule("5m", stays))],
        10: [("battery", _rule("2m", fading))],
        20: [("hot", _rule("5m", [warmer]))],
        30: [("fire", _rule("10m", [{"name": "hot", "where": "fahrenheit > 180"}]))],
        50: [("battery", "")],
    }
    for minute in range(120):
        for name, text in [*changes.get(minute, []), ("fire", _rule("10m", smoking))]:
            yield {"id": name, "at": START_MS + minute * 60_000, "rule": text}


def _rule(within: str, steps: list[Record]) -> str:
    return json.dumps({"version": 1, "within": within, "steps": steps})


EXAMPLES: dict[str, Callable[[random.Random], Iterator[Record]]] = {
    "game": game,
    "sensors": sensors,
    "hashtags": hashtags,
    "fire": fire,
    "alarms": fire,
}

RULES: dict[str, Callable[[], Iterator[Record]]] = {"alarms": alarm_rules}
"""The records of a second topic, for the examples that have one."""


def raw_values(example: str, topics: Sequence[str], count: int, seed: int = 1) -> RawValues:
    """Return the values of each topic of an example: ``count`` events, and all rules."""
    records = {topics[1]: RULES[example]()} if example in RULES else {}
    records[topics[0]] = islice(EXAMPLES[example](random.Random(seed)), count)
    return {topic: [json.dumps(each).encode() for each in some] for topic, some in records.items()}


def main() -> None:
    """Print records as JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("example", choices=EXAMPLES)
    parser.add_argument("--records", type=int, default=1_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rules", action="store_true", help="the rules of alarms")
    arguments = parser.parse_args()
    if arguments.rules and arguments.example not in RULES:
        parser.error(f"--rules: rules are made for {', '.join(RULES)} only")
    draw = random.Random(arguments.seed)
    events = RULES[arguments.example]() if arguments.rules else EXAMPLES[arguments.example](draw)
    for event in islice(events, arguments.records):
        sys.stdout.write(json.dumps(event) + "\n")


if __name__ == "__main__":
    main()
