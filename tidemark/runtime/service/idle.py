"""A service without work: the pipeline has no operators for it.

It stays up, so that a supervisor that starts all services need not start it again and again.
See docs/operations.md, "Containers".
"""

import logging
import time

from tidemark.plan.physical import Plan
from tidemark.runtime.config import Config
from tidemark.runtime.service.health import Health, serve
from tidemark.runtime.service.metrics import Metrics
from tidemark.runtime.service.stopping import Stop

_log = logging.getLogger("tidemark")

_TURN_S = 0.1


def idle(config: Config, plan: Plan, service: str) -> None:
    """Wait for a stop signal; the service is ready meanwhile, and needs no broker."""
    name, reason = plan.group(service), f"the pipeline has no operators for {service}"
    stop = Stop()
    stop.listen()
    stop.work()
    health = Health(name, config.stuck_after_ms / 1000, without_partitions=reason)
    serve(config, health, Metrics())
    health.waiting()
    _log.info("%s waits for a stop signal: %s", name, reason)
    while not stop.asked:
        time.sleep(_TURN_S)
        health.turned()
    _log.info("%s stopped", name)
