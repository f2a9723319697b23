"""Rounds of the bubble game, and what must be known of them: by `tidemark try`, and in PostgreSQL.

Each round is a minute of moves, some minutes late, and one move forty minutes later that closes
all windows.  The next one begins fifty minutes after that: a clock that went on in the silence
between them makes nothing of it late.
"""

import json
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from typing import Any

from examples.events import START_MS
from examples.events import game as moves
from tests.docker.support.compose import ROOT, Compose

MOVES = 600
ROUND = MOVES + 2  # lines of a round
_MINUTE_MS = 60_000
_NOBODY = "end"  # whose window stays open

Found = Counter[tuple[Any, ...]]


def round_of(number: int) -> Iterator[bytes]:
    """Yield the events of a round, with one line that is not an event."""
    shift_ms = number * 90 * _MINUTE_MS
    for move in islice(moves(random.Random(number)), MOVES):
        yield json.dumps({**move, "at": int(str(move["at"])) + shift_ms}).encode()
    yield b"pop!"
    last_ms = START_MS + shift_ms + 40 * _MINUTE_MS
    yield json.dumps({"player": _NOBODY, "at": last_ms, "score": 1, "kind": "pop"}).encode()


def expected(lines: Iterable[bytes]) -> Found:
    """Return what the pipeline makes of events in one process, without Kafka."""
    asked = [sys.executable, "-m", "tidemark", "try", "examples.game", "--input", "-"]
    done = subprocess.run(asked, input=b"\n".join(lines), capture_output=True, check=True, cwd=ROOT)
    return Counter(filter(None, map(_of_record, map(json.loads, done.stdout.splitlines()))))


def _of_record(record: dict[str, Any]) -> tuple[Any, ...] | None:
    value, name = record["value"], record["topic"].removeprefix("game.")
    if name == "dead-letters":
        return name, value["reason"], value["offset"], value["value"]
    times = value["start"], value["end"]
    if name.endswith(".late"):
        return name, value["reason"], value["offset"], *times, value["late_by_ms"]
    if value["player"] == _NOBODY:
        return None
    numbers = [value[column] for column in ("pops", "score", "moves", "best") if column in value]
    return name, value["player"], *times, value["revision"], value["timing"], *numbers


def found(stack: Compose) -> Found:
    """Return what is in the tables, in the same form."""
    rows = [("dead-letters", *row) for row in stack.rows(_DEAD)]
    for name, columns in (("pops-per-minute", "pops, score"), ("play-sessions", "moves, best")):
        table = name.replace("-", "_")
        rows += [(name, *row) for row in stack.rows(_PANES.format(columns, table, _NOBODY))]
        rows += [(f"{name}.late", *row) for row in stack.rows(_LATE.format(table))]
    return Counter(tuple(map(_plain, row)) for row in rows)


_DEAD = "SELECT reason, raw_offset, value FROM dead_letters"
_PANES = (
    "SELECT player, window_start, window_end, revision, timing, {} FROM {} WHERE player <> '{}'"
)
_LATE = "SELECT reason, raw_offset, window_start, window_end, late_by_ms FROM {}_late"


def _plain(value: object) -> object:
    if not isinstance(value, datetime):
        return value
    return round((value - datetime(1970, 1, 1, tzinfo=UTC)).total_seconds() * 1_000)
