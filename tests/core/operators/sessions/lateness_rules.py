"""Both rules of lateness on the same random streams: ``python -m`` this module ``[STREAMS]``.

docs/decisions names the figures.  Each stream is recorded twice, with other interleavings and cuts.
"""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from tests.oracles.aligned import Run
from tests.oracles.session import Spec
from tests.support.logs import Commit, EventLog, Raw, Read, Record, record, row
from tests.support.operators.sessions import operator, view
from tests.support.running import run

GAP_MS = 10
DELAYS_MS = (*(0, 1, 2) * 6, 3, 5, 8, 13, 30)
"""Most rows come within the bound of the watermark."""
BOUND_MS = 2


@dataclass
class Counts:
    """What streams gave by one rule."""

    rows: int = 0
    late: int = 0
    overlapping: int = 0
    differing: int = 0

    def add(self, one: Run, other: Run) -> None:
        """Count a stream by its two recordings."""
        self.rows += one.rows
        self.late += len(one.late)
        self.overlapping += overlaps(one)
        self.differing += _results(one) != _results(other)


def _results(made: Run) -> tuple[object, object]:
    """Return what stands at the end, and the late rows; ``timing`` would differ more often."""
    panes = {at: pane._replace(timing="") for at, pane in view(made).items()}
    return panes, sorted(made.late, key=str)


def overlaps(made: Run) -> bool:
    """Return whether final sessions of a key overlap."""
    final = sorted((str(p.key), p.start, p.end) for p in made.panes if p.final and not p.retracted)
    return any(a[0] == b[0] and b[1] < a[2] for a, b in pairwise(final))


def streams(count: int) -> Iterator[tuple[EventLog, EventLog]]:
    """Yield streams of one to three sources, each recorded twice."""
    for seed in range(count):
        random = Random(seed)
        names = [f"t/{number}" for number in range(random.randint(1, 3))]
        raw = Raw({name: _records(random) for name in names}, BOUND_MS)
        yield _recorded(raw, random), _recorded(raw, random)


def _records(random: Random) -> tuple[Record, ...]:
    at_ms, made = 0, []
    for _ in range(40):
        at_ms += random.randint(0, 6)
        values = row(random.randrange(1_000))
        made.append(Record(at_ms - random.choice(DELAYS_MS), (values,)))
    return tuple(made)


def _recorded(raw: Raw, random: Random) -> EventLog:
    left = {name: len(records) for name, records in raw.sources.items()}
    commits = []
    while any(left.values()):
        reads = {name: min(count, random.randint(0, 12)) for name, count in left.items()}
        left = {name: count - reads[name] for name, count in left.items()}
        commits.append(Commit(tuple(Read(*read) for read in reads.items())))
    return EventLog(raw, record(raw, commits))


def compare(count: int) -> dict[tuple[bool, int], Counts]:
    """Return the counts by rule (strict or not) and allowed lateness."""
    found = {(strict, ms): Counts() for ms in (0, GAP_MS) for strict in (False, True)}
    for logs in streams(count):
        for (strict, lateness_ms), counts in found.items():
            over = operator(Spec(GAP_MS, lateness_ms, strict, on_final=False), ("t",))
            counts.add(*(run(over, log.segments) for log in logs))
    return found


def main() -> None:
    """Print a line per rule and allowed lateness."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    for (strict, lateness_ms), counts in compare(count).items():
        print(  # noqa: T201 - a command's output
            f"{'strict' if strict else 'after_merging':14} allowed {lateness_ms:2} ms: "
            f"{counts.rows} rows, {counts.late} late ({counts.late / counts.rows:.1%}); "
            f"of {count} streams {counts.overlapping} have final sessions that overlap, "
            f"{counts.differing} depend on the interleaving"
        )


if __name__ == "__main__":
    main()
