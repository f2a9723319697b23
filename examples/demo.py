"""The game on a real Kafka, from start to end: ``make demo``; events_demo.py runs other examples.

Alice, Frank, Bob and Carol pop bubbles.  Alice's phone loses its connection in the subway and
delivers three pops minutes later.  They must count in the minute in which they happened.  A sink
keeps the results in SQLite.  The demo starts everything on free ports, with temporary data, and
always stops it.
"""

import json
import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Message
from rich.console import Console

from examples import events_demo
from examples.game import game
from tidemark.commands.interrupts import interrupts_first
from tidemark.embedded import stack
from tidemark.embedded.tools import tool
from tidemark.errors import TidemarkError

GAME = "examples.game"
RAW = "moves"
PARTITIONS = 2  # Alice and Frank are in one, Bob and Carol in the other
DAY_MS = 86_400_000
START_MS = 1_772_438_400_000  # 2026-03-02 08:00 UTC, a minute's beginning
ALICE_FIRST_MINUTE = ("alice", START_MS)

Lines = list[tuple[str, str]]
"""Key and value of records for the console producer."""

console = Console(highlight=False, soft_wrap=True)


def moves(player: str, *times: str, kind: str = "pop") -> Lines:
    """Return a player's moves at times of day such as "08:00:05"."""
    return [
        (player, json.dumps({"player": player, "at": at_ms(time), "score": 10, "kind": kind}))
        for time in times
    ]


def at_ms(time_of_day: str) -> int:
    """Return the instant of a time on the day of the game."""
    hours, minutes, seconds = map(int, time_of_day.split(":"))
    return START_MS + ((hours - 8) * 3600 + minutes * 60 + seconds) * 1000


def clock(ms: int) -> str:
    """Return an instant as time of day."""
    return time.strftime("%H:%M:%S", time.gmtime(ms / 1000))


STEPS: list[tuple[str, Lines]] = [
    (
        "08:00  all four play; then Alice's phone loses its connection",
        moves("alice", "08:00:05", "08:00:12")
        + moves("frank", "08:00:10", "08:00:48")
        + moves("bob", "08:00:08")
        + moves("carol", "08:00:15")
        + moves("bob", "08:00:20", "08:00:31"),
    ),
    (
        "08:01  the others play on: time moves, the first minute is over",
        moves("frank", "08:01:20", "08:02:05")
        + moves("bob", "08:01:10", "08:01:30", "08:02:05")
        + moves("carol", "08:02:10"),
    ),
    (
        "08:02  Alice leaves the subway: three pops of the first minute arrive",
        moves("alice", "08:00:40", "08:00:45", "08:00:55"),
    ),
    (
        "08:03  records that mean nothing: no JSON, no time, no number, from the future",
        [
            ("bob", "pop!"),
            ("bob", '{"player": "bob", "score": 10, "kind": "pop"}'),
            ("carol", json.dumps({"player": "carol", "at": START_MS, "score": "many"})),
            ("frank", json.dumps({"player": "frank", "at": int(time.time() * 1000) + DAY_MS})),
        ],
    ),
    (
        "08:12  more than ten minutes later one more pop of 08:00:50 arrives: too late",
        moves("frank", "08:12:30") + moves("bob", "08:12:20") + moves("alice", "08:00:50"),
    ),
    (
        "08:14  moves that are no pops are filtered, but time moves and every window closes",
        moves("frank", "08:14:30", kind="swipe") + moves("bob", "08:14:30", kind="swipe"),
    ),
]
TOO_LATE = at_ms("08:00:50")
DEAD = 4


def pops() -> set[tuple[str, int]]:
    """Return player and time of every pop that counts."""
    values = [value for _, lines in STEPS for _, value in lines if value.startswith("{")]
    found = [move for move in map(json.loads, values) if move.get("kind") == "pop" and "at" in move]
    return {(move["player"], move["at"]) for move in found if move["at"] != TOO_LATE}


def expected_pops() -> Counter[tuple[str, int]]:
    """Return the pops of each player and minute, counted without Tidemark."""
    return Counter((player, at // 60_000 * 60_000) for player, at in pops())


def expected_sessions() -> Counter[tuple[str, int]]:
    """Return the moves of each player and session, counted without Tidemark."""
    counted: Counter[tuple[str, int]] = Counter()
    last = start = 0
    for player, at in sorted(pops()):
        start = start if last <= at < last + 30_000 else at
        counted[player, start] += 1
        last = at
    return counted


@dataclass
class Results:
    """The results read so far."""

    pops: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    sessions: dict[tuple[str, int], int] = field(default_factory=dict)
    late: set[tuple[str, int]] = field(default_factory=set)
    dead: int = 0

    def complete(self) -> bool:
        """Return whether all expected results have come."""
        counted = {key: pane["pops"] for key, pane in self.pops.items()}
        late = {("pops-per-minute", TOO_LATE), ("play-sessions", TOO_LATE)}
        return (
            counted == expected_pops()
            and self.sessions == expected_sessions()
            and self.late >= late
            and self.dead == DEAD
        )


def show(message: Message, results: Results) -> None:
    """Print a record and add it to the results."""
    value = message.value()
    assert value is not None
    record = json.loads(value)
    topic = str(message.topic())
    if topic == "game.dead-letters":
        results.dead += 1
        console.print(f"  [red]dead letter[/]  {record['value'][:40]:40}  {record['reason']}")
    elif topic.endswith(".late"):
        result = topic.removeprefix("game.").removesuffix(".late")
        results.late.add((result, record["event_time_ms"]))
        show_late(result, record)
    elif topic == "game.play-sessions":
        take_session(record, results)
    else:
        take_pane(record, results)


def take_pane(pane: dict[str, Any], results: Results) -> None:
    """Keep the highest revision of each player and minute, as a sink does."""
    key = (pane["player"], pane["start"])
    if pane["revision"] > results.pops.get(key, {"revision": 0})["revision"]:
        results.pops[key] = pane
    style = "bold green" if pane["timing"] == "late" else "green"
    console.print(
        f"  [{style}]pane[/]         {interval(pane)}  {pane['player']:6} {pane['pops']} pops, "
        f"score {pane['score']}  ({pane['timing']}, revision {pane['revision']})"
    )


def take_session(pane: dict[str, Any], results: Results) -> None:
    """Keep the session, or drop it if it is retracted."""
    key = (pane["player"], pane["start"])
    if pane.get("retracted"):
        results.sessions.pop(key, None)
        what = "withdrawn"
    else:
        results.sessions[key] = pane["moves"]
        what = f"{pane['moves']} moves, best {pane['best']}  ({pane['timing']})"
    console.print(f"  [cyan]session[/]      {interval(pane)}  {pane['player']:6} {what}")


def show_late(result: str, record: dict[str, Any]) -> None:
    """Print a late row."""
    console.print(
        f"  [yellow]late[/]         {clock(record['event_time_ms'])} {record['row']['player']:15} "
        f"for {result}, by {record['late_by_ms'] / 1000:.1f} s"
    )


def interval(pane: dict[str, Any]) -> str:
    """Return a pane's window as text."""
    return f"{clock(pane['start'])}-{clock(pane['end'])}"


@contextmanager
def console_producer(address: str) -> Iterator[Callable[[Lines], None]]:
    """Run Kafka's kafka-console-producer; yield a function that types lines into it."""
    options = ["--topic", RAW, "--timeout", "20"]
    options += ["--reader-property", "parse.key=true", "--reader-property", "key.separator=|"]
    command = tool("kafka-console-producer", ["--bootstrap-server", address, *options])
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as process:
        keyboard = process.stdin
        assert keyboard is not None

        def type_lines(lines: Lines) -> None:
            keyboard.writelines(f"{key}|{value}\n" for key, value in lines)
            keyboard.flush()

        yield type_lines
        keyboard.close()
        if process.wait(30):
            raise TidemarkError(f"kafka-console-producer ended with status {process.returncode}")


@contextmanager
def result_reader(address: str) -> Iterator[Callable[[float, Results], None]]:
    """Read result, late and dead-letter topics; yield a function that shows new records."""
    plan = game.plan()
    topics = [topic for each in plan.operators for topic in each.topics]
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "demo",
            "isolation.level": "read_committed",
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([*topics, plan.dead_letters])

    def show_for(seconds: float, results: Results) -> None:
        deadline = time.monotonic() + seconds
        while not results.complete() and (left := deadline - time.monotonic()) > 0:
            for message in consumer.consume(100, min(left, 0.1)):
                if message.error() is None:
                    show(message, results)

    try:
        yield show_for
    finally:
        consumer.close()


def play(address: str) -> Results:
    """Play the game step by step, and show its results."""
    results = Results()
    with result_reader(address) as show_for, console_producer(address) as type_lines:
        for caption, lines in STEPS:
            console.print(f"\n[bold]{caption}[/]")
            type_lines(lines)
            show_for(2.0, results)
        show_for(30.0, results)
    return results


def table(path: str) -> dict[tuple[str, int], int]:
    """Show Alice's rows in the sink; return the pops of each player and minute."""
    deadline = time.monotonic() + 30.0
    with closing(sqlite3.connect(path)) as database:
        while (found := _counted(database)) != expected_pops() and time.monotonic() < deadline:
            time.sleep(0.05)
        console.print("\nwhat the sink has put into SQLite, which `make up` keeps in var/game.db:")
        for row in database.execute(
            "SELECT player, window_start, pops, score FROM pops_per_minute WHERE player = 'alice'"
        ):
            console.print(
                f"  [green]row[/]          {row[0]}  {row[1]}  {row[2]} pops, score {row[3]}"
            )
    return found


def _counted(database: sqlite3.Connection) -> dict[tuple[str, int], int]:
    rows = database.execute("SELECT player, window_start, pops FROM pops_per_minute")
    return {
        (player, round(datetime.fromisoformat(start).timestamp() * 1000)): pops
        for player, start, pops in rows
    }


def verdict(results: Results, rows: Mapping[tuple[str, int], int]) -> int:
    """Print whether Alice's pops are in the right minute; return the exit status."""
    pane = results.pops.get(ALICE_FIRST_MINUTE, {"pops": 0, "revision": 0})
    wanted = expected_pops()[ALICE_FIRST_MINUTE]
    console.print(
        f"\nAlice popped {wanted} bubbles from 08:00 to 08:01, 3 of them in the subway; "
        f"the minute's pane says {pane['pops']}."
    )
    if results.complete() and rows == expected_pops():
        console.print("[bold green]Right:[/] every pop is in the minute in which it happened.")
        return 0
    missing = expected_pops() - Counter({key: each["pops"] for key, each in results.pops.items()})
    console.print(
        f"[bold red]Wrong:[/] missing {dict(missing)}, late {results.late}, dead {results.dead}, "
        f"rows {dict(rows)}"
    )
    return 1


@interrupts_first()
def run(folder: Path, pipeline: str) -> int:
    """Run the game, or the generated events of another example; return the exit status."""
    return run_game(folder) if pipeline == GAME else events_demo.run(folder, pipeline)


def run_game(folder: Path) -> int:
    """Start everything, play, and check the results."""
    began = time.monotonic()
    with console.status("starting Kafka, ingest, windowing, sessions and a sink into SQLite ..."):
        running = stack.up(folder, GAME, raw_partitions=PARTITIONS, dies_with_us=True)
    processes = ", ".join(f"{each.name} {each.pid}" for each in stack.status(folder))
    console.print(f"up in {time.monotonic() - began:.1f} s at {running.address}: {processes}")
    results = play(running.address)
    return verdict(results, table(running.results))


def main() -> int:
    """Run the demo and stop everything; keep the logs only after a failure."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    os.environ.pop("TIDEMARK_SINK", None)
    folder = Path(tempfile.mkdtemp(prefix="tidemark-demo-"))
    status = 1
    try:
        status = run(folder, sys.argv[1] if len(sys.argv) > 1 else GAME)
    except TidemarkError as error:
        console.print(f"demo: {error}")
    except KeyboardInterrupt:
        status = 130
    finally:
        stack.down(folder)
        if status == 1:
            console.print(f"the logs are in {folder}")
        else:
            shutil.rmtree(folder, ignore_errors=True)
    console.print("all processes are stopped")
    return status


if __name__ == "__main__":
    sys.exit(main())
