"""A stop signal ends the start of Spark, and lets a micro-batch end."""

import os
import signal

import pytest

from tidemark.runtime.service.stopping import STOP_SIGNALS, StopAskedError
from tidemark.spark.services.stop_signal import StopSignal, note_early_signals


@pytest.fixture(autouse=True)
def handlers():
    """Restore the handlers of the test process."""
    before = {number: signal.getsignal(number) for number in STOP_SIGNALS}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_signal_in_a_batch_is_noted():
    stop = StopSignal()
    os.kill(os.getpid(), signal.SIGTERM)
    assert stop.asked


def test_a_signal_ends_the_start_of_spark():  # B9
    stop = StopSignal()
    with pytest.raises(StopAskedError), stop.interrupting():
        signal.raise_signal(signal.SIGTERM)


def test_a_signal_during_the_imports_is_noted_and_ends_the_start():  # B9
    note_early_signals()
    os.kill(os.getpid(), signal.SIGTERM)
    stop = StopSignal()
    assert stop.asked
    reached = []
    with pytest.raises(StopAskedError), stop.interrupting():
        reached.append("the start")
    assert reached == []
