"""The services, each a process and a container command: ``python -m services.NAME``."""

import os
import signal
import sys

if sys.argv[0] == "-m":  # a service starts; polars is not imported yet
    os.environ.setdefault("POLARS_MAX_THREADS", "1")  # a service scales by replicas
    signal.pthread_sigmask(
        signal.SIG_BLOCK, (signal.SIGTERM, signal.SIGINT)
    )  # until handlers are set
