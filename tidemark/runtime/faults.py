"""Explains an error that ends a process: one line, and whether a restart may help."""

import os
import re

from confluent_kafka import KafkaError, KafkaException

FAILED, STOPPED_BY_SETTINGS = 1, 2
"""Exit statuses: a restart may help; a restart changes nothing."""

FENCED = {"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "FENCED_INSTANCE_ID"}
_DENIED = {
    "TOPIC_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
}

_COMMAND = re.compile(r"'tidemark (reset|replay|diff|topics)\b[^']*'")


def as_typed(line: str, pipeline: str, service: str, brokers: str) -> str:
    """Return a line whose quoted commands work as they are.

    PIPELINE and SERVICE become those of this process, and each command names its brokers.
    """

    def typed(found: re.Match[str]) -> str:
        command = found[0].replace("PIPELINE", pipeline).replace("SERVICE", service)
        named = "--bootstrap-server" in command
        return command if named else f"{command[:-1]} --bootstrap-server {brokers}'"

    return _COMMAND.sub(typed, line)


def debugs() -> bool:
    """Return whether errors are to be shown with tracebacks: ``--debug`` asks for them.

    The variable reaches the processes that a command starts.
    """
    return os.environ.get("TIDEMARK_LOG_LEVEL", "") == "DEBUG"


def take_debug(arguments: list[str]) -> list[str]:
    """Return arguments without ``--debug``, which may stand anywhere; obey it."""
    if "--debug" in arguments:
        os.environ["TIDEMARK_LOG_LEVEL"] = "DEBUG"
    return [argument for argument in arguments if argument != "--debug"]


def without_value(text: str) -> str:
    """Return a client's text about a property without the value, which may be a secret."""
    return re.sub(r'Invalid value ".*" for', "Invalid value for", text, flags=re.DOTALL)


def explained(error: Exception, who: str = "this client") -> tuple[str, int]:
    """Return line and exit status of an error; ``who``: the user that the brokers know."""
    if not isinstance(error, KafkaException):
        return str(error), FAILED
    kafka: KafkaError = error.args[0]
    name, notes = kafka.name(), ", ".join(getattr(error, "__notes__", ()))
    if name in FENCED:
        return (
            f"fenced ({notes}): another process has the same id, or a transaction was open for "
            "longer than TIDEMARK_TRANSACTION_TIMEOUT_MS; give each process of a service a "
            "TIDEMARK_SLOT of its own",
            FAILED,
        )
    if name in _DENIED:
        return (
            f'Kafka denies {who}: {kafka.str()}; docs/operations.md, "Security", lists the rights '
            "that a service needs",
            STOPPED_BY_SETTINGS,
        )
    if name == "INVALID_TRANSACTION_TIMEOUT":
        return (
            "TIDEMARK_TRANSACTION_TIMEOUT_MS is more than the broker's transaction.max.timeout.ms: "
            "lower the first or raise the second",
            STOPPED_BY_SETTINGS,
        )
    if name == "MSG_SIZE_TOO_LARGE":
        return (
            f"a topic refuses a message for its size: {kafka.str()}; its max.message.bytes was "
            "lowered, and the next start names the topic and the value that it needs",
            FAILED,
        )
    if name == "_INVALID_ARG":  # of a client that is created
        return f"a KAFKA_* variable: {without_value(kafka.str())}", STOPPED_BY_SETTINGS
    return f"Kafka: {name}: {kafka.str()}", FAILED
