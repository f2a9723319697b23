"""One line for an error that ends a process, and whether starting it again may help."""

from confluent_kafka import KafkaError, KafkaException

FAILED, STOPPED_BY_SETTINGS = 1, 2
"""Exit statuses: start it again; starting it again changes nothing."""

FENCED = {"_FENCED", "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "FENCED_INSTANCE_ID"}
_DENIED = {
    "TOPIC_AUTHORIZATION_FAILED",
    "GROUP_AUTHORIZATION_FAILED",
    "CLUSTER_AUTHORIZATION_FAILED",
    "TRANSACTIONAL_ID_AUTHORIZATION_FAILED",
}


def explained(error: Exception, who: str = "this client") -> tuple[str, int]:
    """Return the line and the exit status; ``who``: as whom the brokers know this process."""
    if not isinstance(error, KafkaException):
        return str(error), FAILED
    kafka: KafkaError = error.args[0]
    name, notes = kafka.name(), ", ".join(getattr(error, "__notes__", ()))
    if name in FENCED:
        return (
            f"fenced ({notes}): another process has the same id, and each process of a service "
            "needs a TIDEMARK_SLOT of its own; or a transaction was open for longer than "
            "TIDEMARK_TRANSACTION_TIMEOUT_MS",
            FAILED,
        )
    if name in _DENIED:
        return (
            f"Kafka denies {who}: {kafka.str()}; docs/operations.md lists the rights "
            'that a service needs under "Security"',
            STOPPED_BY_SETTINGS,
        )
    if name == "INVALID_TRANSACTION_TIMEOUT":
        return (
            "TIDEMARK_TRANSACTION_TIMEOUT_MS is more than the broker's transaction.max.timeout.ms",
            STOPPED_BY_SETTINGS,
        )
    if name == "MSG_SIZE_TOO_LARGE":
        return (
            f"a topic takes no message of that size: {kafka.str()}; its max.message.bytes "
            "was lowered, and the next start says of which topic and what it needs",
            FAILED,
        )
    if name == "_INVALID_ARG":  # of a client that is created
        return f"a KAFKA_* variable: {kafka.str()}", STOPPED_BY_SETTINGS
    return f"Kafka: {name}: {kafka.str()}", FAILED
