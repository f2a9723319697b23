"""`make up` says in one line what keeps the stack from starting."""

import sys

import pytest
from confluent_kafka import KafkaError, KafkaException

from tidemark.embedded import __main__ as command
from tidemark.embedded import stack


def test_a_setting_that_the_kafka_client_refuses_is_one_line(monkeypatch, capsys):
    def up(*_):
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, 'no property "colour"'))

    monkeypatch.setattr(stack, "up", up)
    monkeypatch.setattr(sys, "argv", ["embedded", "up", "examples.game"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == 'up: a KAFKA_* variable: no property "colour"\n'
