"""Each error of the infrastructure becomes a line, and a status that says if a restart helps."""

import pytest
from confluent_kafka import KafkaError, KafkaException

from tidemark.runtime.client.consumer import PartitionsLostError
from tidemark.runtime.faults import as_typed, explained


@pytest.mark.parametrize(
    ("code", "line", "status"),
    [
        (KafkaError._FENCED, "fenced (transactional id g.0): another process", 1),
        (KafkaError.FENCED_INSTANCE_ID, "TIDEMARK_SLOT of its own", 1),
        (KafkaError.GROUP_AUTHORIZATION_FAILED, "Kafka denies user app: said", 2),
        (KafkaError.INVALID_TRANSACTION_TIMEOUT, "TIDEMARK_TRANSACTION_TIMEOUT_MS is more", 2),
        (KafkaError._INVALID_ARG, "a KAFKA_* variable: said", 2),
        (KafkaError.MSG_SIZE_TOO_LARGE, "refuses a message for its size: said; its max.m", 1),
        (KafkaError._TRANSPORT, "Kafka: _TRANSPORT: said", 1),
    ],
)
def test_kafka_errors(code, line, status):
    error = KafkaException(KafkaError(code, "said"))
    error.add_note("transactional id g.0")
    text, ended = explained(error, "user app")
    assert line in text
    assert "\n" not in text
    assert ended == status


def test_lost_partitions_ask_for_a_restart():
    assert explained(PartitionsLostError("the group took x/0 away")) == (
        "the group took x/0 away",
        1,
    )


def test_the_commands_of_a_line_work_as_they_are():  # B11
    line = "state is gone: 'tidemark reset PIPELINE --service SERVICE' starts afresh; PIPELINE"
    typed = (
        "state is gone: 'tidemark reset examples.game --service windowing --bootstrap-server "
        "localhost:9092' starts afresh; PIPELINE"
    )
    for each in (line, typed):  # a line may pass twice
        assert as_typed(each, "examples.game", "windowing", "localhost:9092") == typed


def test_a_line_without_a_command_stays_as_it_is():
    line = "PIPELINE 'tidemark run' SERVICE"
    assert as_typed(line, "examples.game", "windowing", "localhost:9092") == line
