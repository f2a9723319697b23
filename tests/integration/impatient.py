"""The pipeline of pops in a process that waits a few seconds where others wait for half a minute.

No setting says how long these waits are.
"""

from pops import build, pipeline

from tidemark.runtime import clients, reach

__all__ = ["build", "pipeline"]

# As the embedded broker has it: a member of a KIP-848 group that is not heard of leaves after 6 s.
clients._BROKERS_SESSION_TIMEOUT_MS = 6_000

reach._ADVERTISED_S = 3.0
