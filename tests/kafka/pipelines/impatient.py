"""The pipeline of pops in a process that waits a few seconds where others wait for half a minute.

No setting says how long these waits are.
"""

from tests.kafka.pipelines.pops import build, pipeline
from tidemark.runtime.client import broker_probe, clients

__all__ = ["build", "pipeline"]

# As the embedded broker has it: a member of a KIP-848 group that is not heard of leaves after 6 s.
clients._BROKERS_SESSION_TIMEOUT_MS = 6_000

broker_probe._ADVERTISED_S = 3.0
