"""The services: each its own process and container command, ``python -m services.NAME``."""

import os
import signal
import sys

if sys.argv[0] == "-m":  # a service starts, so before polars is imported:
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # replicas share the cores, not threads
    signal.pthread_sigmask(signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT))  # until it can end
