"""``python -m tests.chaos --runs 50 --seed 1``: seeded runs, each judged; one line each.

Exit status 1 if any run differs; the last line says how many passed and failed.
"""

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from tests.chaos.runner import Outcome, run_seed
from tests.chaos.schedule import draw_scenario

LOGS = Path("var/chaos")


def main() -> int:
    """Run the seeds asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--runs", type=int, default=1, help="how many")
    parser.add_argument(
        "--seed", type=int, default=1, help="the first one's; the next has one more"
    )
    parser.add_argument("--jobs", type=int, default=1, help="runs at once, each with its broker")
    parser.add_argument("--show", action="store_true", help="only print what would happen")
    asked = parser.parse_args()
    seeds = range(asked.seed, asked.seed + asked.runs)
    if asked.show:
        print(*(draw_scenario(seed).description() for seed in seeds), sep="\n")
        return 0
    outcomes = list(_reported(seeds, asked.jobs))
    injected = sum((outcome.injected for outcome in outcomes), Counter())
    print("faults:", _counted(injected), f"({injected.total()})")
    failed = sum(bool(outcome.differences) for outcome in outcomes)
    void = sum(bool(outcome.void) and not outcome.differences for outcome in outcomes)
    if void:
        print(f"{void} void: see docs/decisions/0004")
    print(f"{len(outcomes) - failed - void} passed, {failed} failed")
    return 1 if failed else 0


def _reported(seeds: Sequence[int], jobs: int) -> Iterator[Outcome]:
    # Unlike a Pool, it says so when one of its processes dies.
    with ProcessPoolExecutor(jobs, get_context("spawn"), max_tasks_per_child=1) as pool:
        runs = [pool.submit(run_seed, seed, LOGS) for seed in seeds]
        for finished in as_completed(runs):
            print(_report(finished.result()), flush=True)
            yield finished.result()


def _report(outcome: Outcome) -> str:
    seed = outcome.scenario.seed
    word = "FAILED" if outcome.differences else "is void" if outcome.void else "passed"
    line = (
        f"seed {seed} {word} in {outcome.took_s:.0f} s: {outcome.void + '; ' * bool(outcome.void)}"
        f"{_counted(outcome.injected)}; {outcome.restarts} restarts; {_counted(outcome.figures)}"
    )
    if not outcome.differences:
        return line
    shown = [f"  - {difference[:1_500]}" for difference in outcome.differences[:20]]
    return "\n".join(
        [
            line,
            *shown,
            outcome.scenario.description(),
            f"  logs in {LOGS}/seed-{seed}; again: make chaos RUNS=1 SEED={seed}",
        ]
    )


def _counted(counts: "Counter[str] | dict[str, int]") -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items()) or "no faults"


if __name__ == "__main__":
    sys.exit(main())
