"""The services: each its own process and container command, ``python -m services.NAME``."""

import ctypes
import os
import signal
import sys
from types import FrameType

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3

# A service scales by replicas, so one thread of polars is enough for each; more would only fight
# over the cores that the other services and the Kafka clients need.
os.environ.setdefault("POLARS_MAX_THREADS", "1")


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)


# Told to stop while it still imports what it needs, a process has nothing to finish.
if sys.argv[0] == "-m":  # which is what it is until the module to run is found
    signal.signal(signal.SIGTERM, _end)
    signal.signal(signal.SIGINT, _end)


def _keep_freed_memory() -> None:
    """Let glibc keep the memory of one segment for the next.

    By default it maps every large block anew and copies it as it grows: a tenth of all CPU time.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # other C libraries have none
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 32 * 2**20)
        mallopt(_M_TRIM_THRESHOLD, 128 * 2**20)


_keep_freed_memory()
