"""``python -m tests.chaos.changes --runs 3 --seed 1``: seeded runs of deployments, each judged.

Exit status 1 if any run differs.
"""

import argparse
import sys
import time

from tests.chaos.changes.run import STEPS, Run


def main() -> int:
    """Run the seeds asked for."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.changes", description=__doc__)
    parser.add_argument("--runs", type=int, default=1, help="number of runs")
    parser.add_argument("--seed", type=int, default=1, help="of the first run; the next adds one")
    parser.add_argument("--steps", type=int, default=6, help="deployments in a run")
    parser.add_argument(
        "--change", action="append", default=[], choices=STEPS, help="this, in order"
    )
    asked = parser.parse_args()
    failed = 0
    for seed in range(asked.seed, asked.seed + asked.runs):
        begun_s = time.monotonic()
        run = Run(seed, asked.change)
        differences = run.run(asked.steps)
        failed += bool(differences)
        verdict, took_s = "failed" if differences else "passed", time.monotonic() - begun_s
        print(f"seed {seed}: {verdict} after {took_s:.0f} s")
        print(*(f"  {line}" for line in [*run.timeline, *differences]), sep="\n", flush=True)
    print(f"{asked.runs - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
