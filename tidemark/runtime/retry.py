"""Repeats a call, or a question, for a limited time.

Why this and no library: docs/decisions/0014-what-stays-by-hand.md.
"""

import time
from collections.abc import Callable
from typing import TypeVar

Answer = TypeVar("Answer")


def retry(
    call: Callable[[], Answer],
    passes: Callable[[Exception], bool],
    *,
    for_s: float,
    pause_s: float = 0.0,
    on_wait: Callable[[Exception], None] = lambda _error: None,
) -> Answer:
    """Return the result of ``call``, which is called again after errors that pass by themselves.

    ``on_wait`` is called before each pause; it may log the error, or raise to end the wait.

    Raises:
        Exception: what ``call`` raised last, if ``passes`` is false for it or ``for_s`` is over.
    """
    deadline_s = time.monotonic() + for_s
    while True:
        try:
            return call()
        except Exception as error:
            if not passes(error) or time.monotonic() > deadline_s:
                raise
            on_wait(error)
            time.sleep(pause_s)


def poll(happened: Callable[[], bool], *, for_s: float, pause_s: float = 0.0) -> bool:
    """Return True as soon as ``happened`` is true, False if it still is not after ``for_s``.

    ``happened`` may raise to end the wait.
    """
    deadline_s = time.monotonic() + for_s
    while not happened():
        if time.monotonic() > deadline_s:
            return False
        time.sleep(pause_s)
    return True
