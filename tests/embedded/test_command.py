"""`make up` says in one line what keeps the stack from starting."""

import sys
from pathlib import Path

import pytest
from confluent_kafka import KafkaError, KafkaException

from tidemark.embedded import __main__ as command
from tidemark.embedded import stack
from tidemark.embedded.supervision import ProcessStatus


def test_a_setting_that_the_kafka_client_refuses_is_one_line(monkeypatch, capsys):
    def up(*_):
        raise KafkaException(KafkaError(KafkaError._INVALID_ARG, 'no property "colour"'))

    monkeypatch.setattr(stack, "up", up)
    monkeypatch.setattr(sys, "argv", ["embedded", "up", "examples.game"])
    with pytest.raises(SystemExit) as ended:
        command.main()
    assert ended.value.code == 2
    assert capsys.readouterr().err == 'up: a KAFKA_* variable: no property "colour"\n'


def test_status_is_one_line_a_process_where_nothing_is_a_terminal(monkeypatch, capsys):
    log = Path("/", *["long"] * 40, "ingest.log")
    monkeypatch.setattr(stack, "status", lambda _: [ProcessStatus("ingest", "RUNNING", 7, log)])
    monkeypatch.setattr(stack, "readiness", lambda _: {"ingest": "waiting for the group"})
    monkeypatch.setattr(sys, "argv", ["embedded", "status"])
    command.main()
    (line,) = capsys.readouterr().out.splitlines()
    assert line.split() == f"ingest running pid 7 {log} waiting for the group".split()
