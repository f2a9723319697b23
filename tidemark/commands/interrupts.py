"""Ctrl-C, also where a library has put an error of its own in its place."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupts_first() -> Iterator[None]:
    """Raise KeyboardInterrupt where SIGINT came, whatever error the block ends with then.

    A client's C code that meets the pending KeyboardInterrupt may raise what it makes of that, such
    as a TypeError for a list that is quite right.  Only for the main thread.
    """
    came = False

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        nonlocal came
        came = True
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except Exception as error:
        if came:
            raise KeyboardInterrupt from error
        raise
    finally:
        signal.signal(signal.SIGINT, before)
