"""The services: each its own process and container command, ``python -m services.NAME``.

A service scales by replicas, so one thread of polars is enough for each; more would only fight over
the cores that the other services and the Kafka clients need.
"""

import os

os.environ.setdefault("POLARS_MAX_THREADS", "1")
