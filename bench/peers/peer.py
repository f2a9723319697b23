"""Runs Tidemark as one process tree, so that the harness can sum up its resources.

peer.py windowing|sessions: the harness runs it by its path, with a module path of its own.
"""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import FrameType

_LOOK_S = 0.2


def main() -> int:
    """Run ingest and a keyed service until a stop signal, or until one of them ends."""
    os.environ |= {
        "PIPELINE": "bench.peers.job",
        "KAFKA_BOOTSTRAP_SERVERS": os.environ["BENCH_BOOT"],
        "PYTHONPATH": str(Path(__file__).parents[2]),
        "TIDEMARK_SLOT": "0",
        "POLARS_MAX_THREADS": "1",
    }
    modules = (f"services.{sys.argv[1]}", "bench.peers.ingest")
    services = [subprocess.Popen([sys.executable, "-m", module]) for module in modules]

    def stop(_number: int, _frame: FrameType | None) -> None:
        for service in services:
            service.terminate()

    signal.signal(signal.SIGTERM, stop)
    while all(service.poll() is None for service in services):
        time.sleep(_LOOK_S)
    stop(signal.SIGTERM, None)
    return max(service.wait() for service in services)


if __name__ == "__main__":
    sys.exit(main())
