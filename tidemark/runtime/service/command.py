"""How a service starts as a process of its own: its command, environment and memory allocator."""

import ctypes
import os
import signal
import sys
from types import FrameType

from tidemark.runtime.service.stopping import STOP_SIGNALS

MODULE = "tidemark.commands.service"
"""What ``python -m`` runs: the entry point of every service in the installed package."""

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3


def service_command(service: str, *options: str) -> tuple[str, ...]:
    """Return the command line that runs a service in a new interpreter."""
    return (sys.executable, "-m", MODULE, service, *options)


def service_environment() -> dict[str, str]:
    """Return the variables that must be set before a service's interpreter imports polars.

    A service scales by replicas, so one polars thread is enough for each.  More threads would
    compete for the cores that other services and the Kafka clients need.
    """
    return {"POLARS_MAX_THREADS": os.environ.get("POLARS_MAX_THREADS") or "1"}


def block_stop_signals() -> None:
    """Hold back SIGTERM and SIGINT until ``end_on_stop_signals``; lasts across ``exec``."""
    signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)


def end_on_stop_signals() -> None:
    """End with status 0 on SIGTERM or SIGINT: a starting service has nothing to finish."""
    for number in STOP_SIGNALS:
        signal.signal(number, _end)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)


def _end(_number: int, _frame: FrameType | None) -> None:
    os._exit(0)


def keep_freed_memory() -> None:
    """Make glibc reuse the memory of one segment for the next.

    By default glibc maps each large block again and copies it as it grows.  That costs a tenth of
    all CPU time.  Other C libraries have no ``mallopt``; there this does nothing.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_MMAP_THRESHOLD, 32 * 2**20)
        mallopt(_M_TRIM_THRESHOLD, 128 * 2**20)
