"""Whether brokers answer: waits for one at the start, and notices when all are gone later."""

import logging
import socket
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tidemark.errors import ConfigurationError, InfrastructureError
from tidemark.runtime.client import clients
from tidemark.runtime.client.listener import Listener, listener_at
from tidemark.runtime.config import Config

_log = logging.getLogger("tidemark")

_STEP_S = 2.0
_LOG_EVERY_S = 30.0
_REFUSED_S = 10.0
_CONNECT_S = 3.0
_ADVERTISED_S = 30.0
_COMMAND_S = 8.0
_ASK_S, _ANSWER_S, _GONE_S = 2.0, 4.0, 10.0
_LATELY_S = 60.0

# Errors that do not pass by waiting, and the variables to check.
_REFUSALS = {
    KafkaError._AUTHENTICATION: (
        "KAFKA_SECURITY_PROTOCOL, KAFKA_SASL_MECHANISM, KAFKA_SASL_USERNAME, KAFKA_SASL_PASSWORD"
    ),
    KafkaError._SSL: "KAFKA_SECURITY_PROTOCOL, KAFKA_SSL_CA_LOCATION",
}

OnWait = Callable[[str], None]
"""Called with the reason every few seconds of a wait; may raise to end the wait."""


class BrokersAwayError(InfrastructureError):
    """An operation failed because no broker answered; the process itself is sound."""


class LastError:
    """The last error event of a client: why it reaches no broker."""

    def __init__(self) -> None:
        self.error: KafkaError | None = None

    def __call__(self, error: KafkaError) -> None:
        """Keep an error event, unless it only says that all brokers are down."""
        if error.code() != KafkaError._ALL_BROKERS_DOWN:
            self.error = error


def await_broker(config: Config, on_wait: OnWait) -> AdminClient:
    """Return an admin client once a broker answers; waits without limit.

    Raises:
        ConfigurationError: the brokers refuse this client, or cannot be reached at the addresses
            they advertise, or they speak TLS and this client does not; waiting would not help.
    """
    last = LastError()
    admin = clients.admin(config, last)
    begun_s, logged_s = time.monotonic(), 0.0
    while not _answers(admin, last):
        now_s = time.monotonic()
        if now_s - begun_s > _REFUSED_S:
            _check_refused(config, last.error)
        _check_protocol(config, last.error)
        reason = f"waiting for a broker at {config.bootstrap_servers}: {_text(last.error)}"
        on_wait(reason)
        if now_s - logged_s > _LOG_EVERY_S:
            logged_s = now_s
            _log.warning("%s", reason)
    _check_advertised(config, admin, on_wait)
    return admin


def require_broker(config: Config) -> AdminClient:
    """Return an admin client if a broker answers within seconds: for a command, not a service.

    Raises:
        ConfigurationError: no broker answers, or one refuses this client; names the address.
    """
    deadline_s = time.monotonic() + _COMMAND_S

    def check_time(reason: str) -> None:
        if time.monotonic() > deadline_s:
            raise ConfigurationError(
                f"gave up after {_COMMAND_S:.0f} s {reason}; start the broker, or correct "
                "--bootstrap-server or KAFKA_BOOTSTRAP_SERVERS"
            )

    return await_broker(config, check_time)


def _answers(admin: AdminClient, last: LastError) -> bool:
    try:
        admin.list_topics("", timeout=_STEP_S)
    except KafkaException as error:
        admin.poll(0)  # the reason comes as an event
        last.error = last.error or error.args[0]
        time.sleep(0.2)
        return False
    return True


def _check_refused(config: Config, error: KafkaError | None) -> None:
    if error is not None and error.code() in _REFUSALS:
        raise ConfigurationError(
            f"the broker at {config.bootstrap_servers} refuses: {error.str()}; "
            f"check {_REFUSALS[error.code()]}"
        )


def _check_protocol(config: Config, error: KafkaError | None) -> None:
    """Raise if this client speaks no TLS and a listener does: the client gets no reason then."""
    protocol = config.client_properties.get("security.protocol", "plaintext").lower()
    if protocol.endswith("ssl") or error is None or error.code() != KafkaError._TRANSPORT:
        return
    for address in config.bootstrap_servers.split(","):
        if listener_at(address) is Listener.SPEAKS_TLS:
            with_tls = "SASL_SSL" if protocol.startswith("sasl") else "SSL or SASL_SSL"
            raise ConfigurationError(
                f"the broker at {address} speaks TLS and this client does not: set "
                f"KAFKA_SECURITY_PROTOCOL to {with_tls}"
            )


def _check_advertised(config: Config, admin: AdminClient, on_wait: OnWait) -> None:
    """Raise if no broker can be reached at the address that it advertises.

    Once the client knows only such addresses, it may get no answer any more.  The addresses of the
    last answer count then.  While nothing listens at KAFKA_BOOTSTRAP_SERVERS either, brokers are
    away, and the time does not count.
    """
    deadline_s = time.monotonic() + _ADVERTISED_S
    addresses: list[tuple[str, int]] = []
    while True:
        addresses = _advertised(admin) or addresses
        closed = [found for host, port in addresses if (found := _unreachable(host, port))]
        if addresses and len(closed) < len(addresses):
            return
        reason = f"waiting for a broker at {config.bootstrap_servers}: no answer"
        if not _listens(config):
            deadline_s = time.monotonic() + _ADVERTISED_S
        elif addresses:
            reason = (
                f"the broker at {config.bootstrap_servers} answers, but advertises "
                f"{', '.join(closed)}: set its advertised.listeners to an address that this "
                "machine reaches"
            )
            if time.monotonic() > deadline_s:
                raise ConfigurationError(reason)
        _log.warning("%s", reason)
        on_wait(reason)
        time.sleep(_STEP_S)


def _listens(config: Config) -> bool:
    """Return whether a connection to one of the first addresses is possible."""
    return any(
        listener_at(each) is not Listener.CLOSED for each in config.bootstrap_servers.split(",")
    )


def _advertised(admin: AdminClient) -> list[tuple[str, int]]:
    """Return the addresses that brokers advertise, none without an answer."""
    try:
        brokers = admin.list_topics("", timeout=_STEP_S).brokers.values()
    except KafkaException:
        return []
    return [(str(each.host), int(each.port or 0)) for each in brokers]


def _unreachable(host: str, port: int) -> str | None:
    """Return the address and the reason if no connection is possible, else None."""
    try:
        with socket.create_connection((host, port), timeout=_CONNECT_S):
            return None
    except OSError as error:
        return f"{host}:{port} ({error.strerror or error})"


def _text(error: KafkaError | None) -> str:
    return error.str() if error is not None else "no answer"


class BrokerProbe:
    """Asks in the background whether brokers answer while the service runs.

    It asks in a thread of its own.  The admin interface could ask without one (DescribeCluster),
    but librdkafka 2.16 aborts the process when the answer lists no broker ("Assertion `rko_result'
    failed").  A lone broker answers so while it starts.
    """

    def __init__(self, admin: AdminClient, now_s: float) -> None:
        self._admin = admin
        self._thread = ThreadPoolExecutor(1, "broker-probe")
        self._asked: Future[bool] | None = None
        self._asked_s = now_s
        self._silent_since_s: float | None = None  # when the first unanswered question was asked
        self._missed_s: float | None = None

    def poll(self, now_s: float) -> str | None:
        """Ask every two seconds; return a reason if no broker has answered for ten.

        The time between two calls does not count by itself, since nothing may have been asked then:
        a call of the client may hold up the caller for as long as ten seconds.
        """
        if self._asked is not None and self._asked.done():
            if self._asked.result():
                self._silent_since_s = None
            self._asked = None
        if self._asked is None and now_s - self._asked_s >= _ASK_S:
            self._asked = self._thread.submit(self.answers, _ANSWER_S)
            self._asked_s = now_s
            if self._silent_since_s is None:
                self._silent_since_s = now_s
        quiet_s = now_s - self._silent_since_s if self._silent_since_s is not None else 0.0
        return f"no broker has answered for {quiet_s:.0f} s" if quiet_s > _GONE_S else None

    def answers(self, within_s: float = _STEP_S) -> bool:
        """Return whether a broker answers now; may be called from another thread."""
        try:
            self._admin.list_topics("", timeout=within_s)
        except KafkaException:
            self._missed_s = time.monotonic()
            return False
        return True

    def was_away(self, now_s: float) -> bool:
        """Return whether no broker answers now, or none answered once in the last minute.

        A pause of this process alone does not count: brokers answer as soon as it runs again.
        """
        self.poll(now_s)
        if self._missed_s is not None and now_s - self._missed_s < _LATELY_S:
            return True
        return not self.answers()
