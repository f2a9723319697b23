"""How a service starts again within its process."""

import subprocess
import sys

_SIGNALED_WHILE_IT_STARTS = """
import os, signal, sys
from tidemark.runtime.service.command import end_on_stop_signals
from tidemark.runtime.service.serve import _start_again

if "again" not in sys.argv:
    sys.orig_argv.append("again")
    _start_again()
os.kill(os.getpid(), signal.SIGTERM)
print("started", flush=True)
end_on_stop_signals()
print("not ended", flush=True)
"""


def test_a_signal_while_a_service_starts_again_ends_it_with_status_0():
    command = [sys.executable, "-c", _SIGNALED_WHILE_IT_STARTS]
    ended = subprocess.run(command, stdout=subprocess.PIPE, check=False)
    assert (ended.returncode, ended.stdout) == (0, b"started\n")


_LISTENS = """
import os, signal, time
signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM,))  # before any other thread is there
from tidemark.runtime.service.stopping import Stop

os.kill(os.getpid(), signal.SIGTERM)
Stop().listen()
time.sleep(30)
"""


def test_a_signal_that_came_while_signals_were_held_back_is_heard():
    """A program that calls ``serve`` itself (bench.peers.ingest) has no other place for it."""
    ended = subprocess.run([sys.executable, "-c", _LISTENS], timeout=30, check=False)
    assert ended.returncode == 0
