"""The command line as a person types it: output, one-line errors, exit status."""

import json
import os
import subprocess
import sys

import pytest

from tests.forked import Files, Forked, tidemark
from tidemark.runtime.service.command import MODULE


def test_plan_prints_services_and_topics():
    command = [sys.executable, "-m", "tidemark", "plan", "examples.game"]
    shown = subprocess.run(command, capture_output=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert b"game.pops-per-minute.changelog" in shown.stdout


def test_plan_prints_a_mermaid_diagram():
    assert tidemark("plan", "examples.game", "--mermaid").stdout.startswith(b"flowchart LR")


def test_try_reads_stdin_and_prints_json_lines_and_counts():
    record = b'{"player":"alice","at":1000,"score":7,"kind":"pop"}\n'
    shown = tidemark("try", "examples.game", "--input", "-", "--cuts", "1", stdin=record)
    assert shown.returncode == 0, shown.stderr
    topics = [json.loads(line)["topic"] for line in shown.stdout.splitlines()]
    assert topics == ["game.pops-per-minute", "game.play-sessions"]
    assert b"moves: 1 records = 1 passed + 0 filtered + 0 dead + 0 blank" in shown.stderr


def test_the_counts_of_try_are_whole_lines(tmp_path):
    code = """from tidemark import Pipeline, count, field, monotonic, tumbling

made = Pipeline("made")
rows = made.source("a-topic-with-a-name-so-long-that-its-counts-are-wide", event_time="at",
                   unit="s", schema={"at": field("at", int, lenient=True)}, watermark=monotonic())
rows.key_by("at").window(tumbling("1m")).aggregate(n=count()).to("n")
"""
    (tmp_path / "made.py").write_text(code)
    shown = tidemark("try", str(tmp_path / "made.py"), "--input", "-", stdin=b'{"at":"1"}\n')
    assert b"1 passed + 0 filtered + 0 dead + 0 blank; 1 values converted\n" in shown.stderr


def test_try_warns_if_no_record_fits():
    rows = b"alice,1000\nbob,2000\n"
    shown = tidemark("try", "examples.game", "--input", "-", stdin=rows)
    assert b"warning: all records of moves are dead; is the source of another" in shown.stderr


def test_try_reads_a_document_over_several_lines():
    pretty = (
        b'[\n{"player":"alice",\n"at":1000,"kind":"pop","score":1},\n{"player":"bob","at":"x"}\n]\n'
    )
    shown = tidemark("try", "examples.game", "--input", "-", stdin=pretty)
    assert b"moves: 2 records = 1 passed + 0 filtered + 1 dead + 0 blank" in shown.stderr


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "command"),
        (["plan"], "PIPELINE"),
        (["plan", "nowhere"], "nowhere"),
        (["run", "baking"], "baking"),
        (["try", "examples.game", "--input", "/no/such/file"], "/no/such/file"),
        (["plan", "examples.game", "--colour"], "--colour"),
        (["try", "examples.game"], "--input"),
        (["try", "examples.game", "--input", "-", "--cuts", "x"], "--cuts"),
    ],
)
def test_mistakes_are_one_line_and_exit_status_2(arguments, words):
    shown = tidemark(*arguments)
    assert shown.returncode == 2
    assert shown.stdout == b""
    (line,) = shown.stderr.decode().splitlines()
    assert line.startswith("tidemark: ")
    assert words in line


@pytest.mark.parametrize("where", [0, 1, 2])
def test_only_debug_shows_the_traceback(tmp_path, where):  # D8
    (tmp_path / "job.py").write_text("x = (1")
    arguments = ["plan", str(tmp_path / "job.py")]
    line = f"tidemark: {tmp_path / 'job.py'}:1: SyntaxError: '(' was never closed"
    assert tidemark(*arguments).stderr.decode().splitlines() == [line]
    arguments.insert(where, "--debug")
    shown = tidemark(*arguments)
    assert shown.returncode == 2
    lines = shown.stderr.decode().splitlines()
    assert "Traceback (most recent call last):" in lines
    assert lines[-1] == line


def test_only_debug_shows_the_traceback_of_a_service(tmp_path):  # D8
    (tmp_path / "job.py").write_text("from tidemark import tumbling\ntumbling(300)")
    environment = {**os.environ, "PIPELINE": str(tmp_path / "job.py")}
    for options in ([], ["--debug"]):
        log = tmp_path / f"log{len(options)}"
        assert Forked((MODULE, "ingest", *options), environment, Files(log)).wait() == 2
        text = log.read_text()
        assert f"ingest: {tmp_path / 'job.py'}:2: tumbling(size): 300 has no unit" in text
        assert ("Traceback" in text) is bool(options)


def test_commands_for_kafka_need_none_of_the_local_stack():
    script = (
        "import os, sys; sys.modules['supervisor'] = None; "
        "os.environ.pop('KAFKA_BOOTSTRAP_SERVERS', None); from tidemark.commands import cli; "
        "from tidemark.commands.options import broker_config; "
        "print(broker_config(None).bootstrap_servers)"
    )
    shown = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert shown.stdout == b"localhost:9092\n", shown.stderr
