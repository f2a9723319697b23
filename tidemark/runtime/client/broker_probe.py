"""Reaching the brokers: waiting for one at the start, noticing when all are gone, saying why."""

import logging
import socket
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tidemark.errors import ConfigurationError, InfrastructureError
from tidemark.runtime.client import clients
from tidemark.runtime.config import Config

_log = logging.getLogger("tidemark")

_STEP_S = 2.0
_SAY_S = 30.0
_REFUSED_S = 10.0
_CONNECT_S = 3.0
_ADVERTISED_S = 30.0
_ASK_S, _ANSWER_S, _GONE_S = 2.0, 4.0, 10.0
_LATELY_S = 60.0

# What waiting does not heal, and the variables to look at.
_REFUSALS = {
    KafkaError._AUTHENTICATION: (
        "KAFKA_SECURITY_PROTOCOL, KAFKA_SASL_MECHANISM, KAFKA_SASL_USERNAME, KAFKA_SASL_PASSWORD"
    ),
    KafkaError._SSL: "KAFKA_SECURITY_PROTOCOL, KAFKA_SSL_CA_LOCATION",
}

Waiting = Callable[[str], None]
"""Called with the reason, every few seconds of a wait."""


class BrokersAwayError(InfrastructureError):
    """What failed did so since no broker answered: there is nothing wrong with the process."""


class Troubles:
    """The last word of a client on why it cannot reach anybody."""

    def __init__(self) -> None:
        self.last: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        """Take an error event."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.last = error


def await_broker(config: Config, waiting: Waiting) -> AdminClient:
    """Return an admin client once a broker answers; waits as long as that takes.

    Raises:
        ConfigurationError: brokers refuse this client, or cannot be reached where they say they
            are; waiting would not help.
    """
    troubles = Troubles()
    admin = clients.admin(config, troubles)
    begun_s, said_s = time.monotonic(), 0.0
    while not _answers(admin, troubles):
        now_s = time.monotonic()
        if now_s - begun_s > _REFUSED_S:
            _check_refused(config, troubles.last)
        reason = f"waiting for a broker at {config.bootstrap_servers}: {_text(troubles.last)}"
        waiting(reason)
        if now_s - said_s > _SAY_S:
            said_s = now_s
            _log.warning("%s", reason)
    _check_advertised(config, admin, waiting)
    return admin


def _answers(admin: AdminClient, troubles: Troubles) -> bool:
    try:
        admin.list_topics("", timeout=_STEP_S)
    except KafkaException as error:
        admin.poll(0)  # the reason comes as an event
        troubles.last = troubles.last or error.args[0]
        time.sleep(0.2)
        return False
    return True


def _check_refused(config: Config, trouble: KafkaError | None) -> None:
    if trouble is not None and trouble.code() in _REFUSALS:
        raise ConfigurationError(
            f"the broker at {config.bootstrap_servers} refuses: {trouble.str()}; "
            f"check {_REFUSALS[trouble.code()]}"
        )


def _check_advertised(config: Config, admin: AdminClient, waiting: Waiting) -> None:
    """Stop where no broker can be reached at the address it gives for itself."""
    deadline_s = time.monotonic() + _ADVERTISED_S
    while True:
        brokers = clients.when_known(
            lambda: admin.list_topics("", timeout=_STEP_S)
        ).brokers.values()
        troubles = list(filter(None, (_refuses(str(b.host), int(b.port or 0)) for b in brokers)))
        if len(troubles) < len(brokers):
            return
        reason = (
            f"the broker at {config.bootstrap_servers} answers, but says that it is at "
            f"{', '.join(troubles)}: set its advertised.listeners to what is reachable from here"
        )
        if time.monotonic() > deadline_s:
            raise ConfigurationError(reason)
        _log.warning("%s", reason)
        waiting(reason)
        time.sleep(_STEP_S)


def _refuses(host: str, port: int) -> str | None:
    """Return the address and why nobody answers there; None if somebody does."""
    try:
        with socket.create_connection((host, port), timeout=_CONNECT_S):
            return None
    except OSError as error:
        return f"{host}:{port} ({error.strerror or error})"


def _text(error: KafkaError | None) -> str:
    return error.str() if error is not None else "no answer"


class BrokerProbe:
    """Whether brokers answer while the service runs; asked in the background."""

    def __init__(self, admin: AdminClient, now_s: float) -> None:
        """``admin`` must live as long as this."""
        self._admin = admin
        self._asked: Future[Any] | None = None
        self._asked_s = self._answered_s = now_s
        self._missed_s: float | None = None

    def poll(self, now_s: float) -> str | None:
        """Ask from time to time; return a reason where nobody answers."""
        if self._asked is None and now_s - self._asked_s >= _ASK_S:
            self._asked = self._admin.describe_cluster(request_timeout=_ANSWER_S)
            self._asked_s = now_s
        if self._asked is not None and self._asked.done():
            if self._asked.exception() is None:
                self._answered_s = now_s
            else:
                self._missed_s = now_s
            self._asked = None
        quiet_s = now_s - self._answered_s
        return f"no broker answers since {quiet_s:.0f} s" if quiet_s > _GONE_S else None

    def answers(self) -> bool:
        """Say whether a broker answers now; may be asked from another thread."""
        try:
            self._admin.list_topics("", timeout=_STEP_S)
        except KafkaException:
            self._missed_s = time.monotonic()
            return False
        return True

    def was_away(self, now_s: float) -> bool:
        """Say whether no broker answers, or none did at some time within the last minute.

        That this process stood still is no reason: then all brokers answer when it goes on.
        """
        self.poll(now_s)
        if self._missed_s is not None and now_s - self._missed_s < _LATELY_S:
            return True
        return not self.answers()
