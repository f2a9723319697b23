"""Run inputs that make memory grow against the services, on an embedded broker.

python -m bench.memory [--share 1.0] [--limit-s 120] [bomb ...]

Prints, for each bomb and service, the peak of its memory and what it has read.  Ends with status 1
if a service takes more than 1.5 times its budget (TIDEMARK_MEMORY), ends, or does not read on.
"""

import argparse
import sys
import tempfile
from pathlib import Path

from bench.memory.bombs import BOMBS
from bench.memory.services import measured
from tidemark.embedded.broker import Broker
from tidemark.runtime.config import Config


def main() -> int:
    """Print a table; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m bench.memory", description=__doc__)
    parser.add_argument("bombs", nargs="*", default=list(BOMBS), help=", ".join(BOMBS))
    parser.add_argument("--share", type=float, default=1.0, help="part of each input to send")
    parser.add_argument("--limit-s", type=float, default=120.0, help="time for each service")
    asked = parser.parse_args()
    wrong = False
    with tempfile.TemporaryDirectory() as folder, Broker(Path(folder)) as broker:
        config = Config(bootstrap_servers=broker.address)
        print(f"budget {config.memory_bytes / 2**20:,.0f} MiB for each service")
        print("| bomb | service | peak MiB | s | |\n|---|---|--:|--:|---|")
        for name in asked.bombs:
            for found in measured(config, name, asked.share, asked.limit_s, Path(folder)):
                faults = ", ".join(found.faults(config.memory_bytes))
                wrong = wrong or bool(faults)
                peak = found.peak_bytes / 2**20
                print(
                    f"| {name} | {found.service} | {peak:,.0f} | {found.seconds:.1f} | {faults} |"
                )
                sys.stdout.flush()
    return int(wrong)


if __name__ == "__main__":
    sys.exit(main())
