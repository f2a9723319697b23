"""Makes Ctrl-C raise KeyboardInterrupt, even if a library replaces it by another error."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def interrupts_first() -> Iterator[None]:
    """Return a context that raises KeyboardInterrupt after SIGINT, whatever error the block raises.

    C code of a client may turn a pending KeyboardInterrupt into another error, such as a TypeError
    for a valid list.  Only for the main thread.
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
