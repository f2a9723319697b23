"""What happens in a run: all of it is drawn from the seed, and nothing of it knows a clock.

Times are seconds since the services were up.  A fault may find that there is nothing to hit, when
what it aims at is just being started; it is then left out and not counted.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.chaos.joining import KINDS, Bounds, Join
from tests.chaos.matching import Pattern
from tests.chaos.pipelines import OF_PEOPLE, OF_TEAMS, SESSIONS, TOPICS
from tests.oracles.chain import Stage, Windows

SERVICES = ("ingest", "windowing", "sessions")
"""The services of each run; one run in three has ``joins``, too, and one in three ``patterns``."""

SLOTS = ("0", "1", "2")
BROKER = "broker"
SESSION_TIMEOUT_S = 6.0

FEED_S = 16.0
FIRST_S, LAST_S = 1.0, 17.0
CALM_EVERY = 10
"""One seed in this many has no faults, and one has a broker that stands still for a minute."""

_OF_SERVICES = {
    "kill": 6, "stop": 3, "freeze": 3, "long freeze": 2, "scale in": 2, "scale out": 3, "twin": 1
}  # fmt: skip
_OF_ALL = {"kill all": 1}
_OF_STORE = {"store full": 2, "store denied": 1, "store damaged": 2}
_OF_BROKER = {"broker stop": 1, "broker kill": 1, "broker freeze": 2}


@dataclass(frozen=True, order=True)
class Fault:
    """One fault: for ``for_s`` seconds the process is away, stands still, or has a twin."""

    at_s: float
    kind: str
    service: str
    slot: str = ""
    for_s: float = 0.0

    def __str__(self) -> str:
        what = f"{self.service}/{self.slot}" if self.slot else self.service
        return f"{self.at_s:5.1f} s  {self.kind} {what}" + f" for {self.for_s:.1f} s"


@dataclass(frozen=True)
class Scenario:
    """A run: its pipeline, input, replicas, settings and faults.

    ``options``: of the pipeline.  ``partitions``: of each raw topic.  ``empty``: the partition of
    the first topic that never gets a record, or None.  ``replicas``: how many of each service are
    started.  ``aborts``: whether raw transactions are aborted meanwhile.
    """

    seed: int
    options: Mapping[str, Any]
    partitions: Mapping[str, int]
    empty: int | None
    records: int
    replicas: Mapping[str, int]
    env: Mapping[str, str]
    aborts: bool
    faults: Sequence[Fault]

    def fed(self) -> dict[str, list[int]]:
        """Return the partitions that get records, by topic."""
        return {
            topic: [n for n in range(count) if (topic, n) != (TOPICS[0], self.empty)]
            for topic, count in self.partitions.items()
        }

    def description(self) -> str:
        """Return the scenario as lines of text."""
        lines = [
            f"seed {self.seed}: {self.records} records to {dict(self.partitions)}, "
            f"empty {self.empty}, aborts {self.aborts}",
            f"  pipeline {dict(self.options)}",
            f"  replicas {dict(self.replicas)}, settings {dict(self.env)}",
        ]
        return "\n".join([*lines, *(f"  {fault}" for fault in self.faults)])


def draw_scenario(seed: int) -> Scenario:
    """Return the scenario of a seed."""
    draw = random.Random(seed)
    idles = draw.random() < 0.4
    partitions = {topic: draw.randint(1, 4) for topic in TOPICS}
    partitions[TOPICS[0]] += idles
    idle = {
        "idle_after": draw.choice(("1s", "3s")),
        "when_silent": draw.choice(("wait", "advance")),
    }
    chains, joins = _stages(random.Random(f"stages of {seed}"))
    patterns = _patterns(random.Random(f"patterns of {seed}"))
    services = (*SERVICES, *["joins"] * bool(joins), *["patterns"] * bool(patterns))
    replicas = {service: draw.choice((1, 1, 2, 2, 3)) for service in services}
    backend = draw.choice(("memory", "rocksdb"))
    return Scenario(
        seed=seed,
        options={
            "operators": _operators(draw),
            "partitions": draw.randint(2, 3),
            "chains": chains,
            "joins": joins,
            "patterns": patterns,
            **(idle if idles else {}),
        },
        partitions=partitions,
        empty=draw.randrange(partitions[TOPICS[0]]) if idles else None,
        records=draw.choice((1_500, 3_000, 6_000)),
        replicas=replicas,
        env={
            "TIDEMARK_STATE_BACKEND": backend,
            "TIDEMARK_STATE_MEMORY_MB": draw.choice(("0", "1")),
            "TIDEMARK_COMMIT_INTERVAL_MS": draw.choice(("100", "250", "500")),
            "TIDEMARK_SNAPSHOT_COMMITS": draw.choice(("2", "7", "30", "1000")),
        },
        aborts=draw.random() < 0.3,
        faults=tuple(sorted(_faults(draw, seed, replicas, on_disk=backend == "rocksdb"))),
    )


def _operators(draw: random.Random) -> list[str]:
    """Choose a few of each key domain, so that every service has some."""
    others = [name for name in OF_PEOPLE if name not in SESSIONS]
    return [*draw.sample(SESSIONS, 2), *draw.sample(others, 2), draw.choice([*OF_TEAMS])]


def _stages(draw: random.Random) -> tuple[list[list[Stage]], list[Join]]:
    """Choose a join, or up to two chains: either adds about as much work to a run."""
    if draw.random() < 1 / 3:
        return [], [_join(draw)]
    return [_chain(draw, draw.choice((2, 3))) for _ in range(draw.choice((0, 1, 2)))], []


def _join(draw: random.Random) -> Join:
    bounds = _bounds(draw)
    return Join(
        bounds,
        draw.choice(KINDS[bounds.kind]),
        draw.choice((0, 3_000)),
        draw.random() < 0.5 and bounds.corrects,
        _chain(draw, draw.choice((0, 1, 2))),
    )


def _bounds(draw: random.Random) -> Bounds:
    kind = draw.choice([*KINDS])
    if kind == "window":
        slide_ms = draw.choice((500, 1_000, 2_000))
        return Bounds(kind, slide_ms, slide_ms * draw.choice((1, 2)))
    if kind in ("table", "broadcast"):
        return Bounds(kind, 0, draw.choice((300, 5_000, 60_000)))
    low_ms = draw.choice((-1_000, 0, 200))
    return Bounds(kind, low_ms, low_ms + draw.choice((100, 300, 1_000)))


def _patterns(draw: random.Random) -> list[Pattern]:
    """Choose a pattern for one run in three."""
    if draw.random() > 1 / 3:
        return []
    low, high = draw.choice(((2, 18), (5, 12), (10, 10)))
    return [Pattern(low, high, draw.choice((200, 1_000, 5_000)))]


def _chain(draw: random.Random, length: int) -> list[Stage]:
    stages: list[Stage] = []
    for _ in range(length):
        keyed = not stages or stages[-1].key != "all"
        key = draw.choice(("same", "value", "all") if keyed else ("value", "all"))
        lateness_ms = draw.choice((0, 0, 3_000))
        stages.append(Stage(_windows(draw), lateness_ms, draw.choice((1, 1, 2)), key))
    return stages


def _windows(draw: random.Random) -> Windows:
    size_ms = draw.randint(1, 6) * 2_000
    kind = draw.choice(("tumbling", "hopping", "session"))
    if kind == "session":
        return Windows(kind, size_ms // 2)
    return Windows("hopping", size_ms, size_ms if kind == "tumbling" else size_ms // 2)


def _faults(
    draw: random.Random, seed: int, replicas: Mapping[str, int], *, on_disk: bool
) -> Iterator[Fault]:
    if seed % CALM_EVERY == 0:
        return
    for _ in range(draw.randint(1, 2) if on_disk else 0):
        yield _of_store(draw, replicas)
    for _ in range(draw.randint(4, 9)):
        yield _of_service(draw, replicas)
    if seed % CALM_EVERY == CALM_EVERY // 2:
        yield Fault(_moment(draw), "broker freeze", BROKER, for_s=60.0)
        return
    begin_s = FIRST_S
    for _ in range(draw.randint(0, 2)):  # one after the other
        begin_s = draw.uniform(begin_s, LAST_S)
        away_s = draw.choice((0.0, 2.0, 5.0, 12.0))
        yield Fault(round(begin_s, 1), _kind(draw, _OF_BROKER), BROKER, for_s=away_s)
        begin_s += away_s + 2.0


def _of_service(draw: random.Random, replicas: Mapping[str, int]) -> Fault:
    kind = _kind(draw, {**_OF_SERVICES, **_OF_ALL})
    if kind in _OF_ALL:
        return Fault(_moment(draw), kind, "all", for_s=_short_s(draw))
    for_s = {
        "long freeze": draw.uniform(SESSION_TIMEOUT_S + 1, 2 * SESSION_TIMEOUT_S),
        "freeze": draw.uniform(0.2, SESSION_TIMEOUT_S - 2),
        "twin": draw.uniform(3.0, 8.0),
    }.get(kind, _short_s(draw))
    service = draw.choice([*replicas])
    slots = SLOTS if kind == "scale out" else SLOTS[: replicas[service]]
    return Fault(_moment(draw), kind, service, draw.choice(slots), round(for_s, 1))


def _of_store(draw: random.Random, replicas: Mapping[str, int]) -> Fault:
    """Kill keyed services, and start them again on a store that is not as it was."""
    kind = _kind(draw, _OF_STORE)
    if kind == "store damaged":
        return Fault(_moment(draw), kind, "all", for_s=_short_s(draw))
    service = draw.choice([*replicas][1:])
    slot = draw.choice(SLOTS[: replicas[service]])
    return Fault(_moment(draw), kind, service, slot, _short_s(draw))


def _kind(draw: random.Random, weights: Mapping[str, int]) -> str:
    (kind,) = draw.choices([*weights], [*weights.values()])
    return kind


def _moment(draw: random.Random) -> float:
    return round(draw.uniform(FIRST_S, LAST_S), 1)


def _short_s(draw: random.Random) -> float:
    return round(draw.choice((0.0, 0.3, draw.uniform(0.5, 4.0))), 1)
