"""Ctrl-C is an interrupt, whatever a library makes of it."""

import os
import signal

import pytest

from tidemark.commands.interrupts import interrupts_first


def spoiled():
    """Do as a C function that a signal meets: another error takes the interrupt's place."""
    try:
        os.kill(os.getpid(), signal.SIGINT)
    except KeyboardInterrupt:
        raise TypeError("expected list of unicode strings") from None


def test_an_error_in_place_of_an_interrupt_is_an_interrupt():
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), interrupts_first():
        spoiled()
    assert signal.getsignal(signal.SIGINT) is before


def test_an_error_without_an_interrupt_stays_what_it_is():
    with pytest.raises(ValueError, match="wrong"), interrupts_first():
        raise ValueError("wrong")
