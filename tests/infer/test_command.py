"""`tidemark infer` as a process: what it prints runs, and mistakes end with status 2."""

import json

import pytest

from tests.forked import tidemark
from tests.infer.shapes import lines


def test_the_printed_module_runs_as_it_is(tmp_path):
    (tmp_path / "my events.jsonl").write_bytes(b"\n".join(lines("github", 50)) + b"\n")
    printed = tidemark("infer", "my events.jsonl", folder=tmp_path)
    assert printed.returncode == 0, printed.stderr
    (tmp_path / "p.py").write_bytes(printed.stdout)
    tried = tidemark("try", "p", "--input", "my events.jsonl", folder=tmp_path)
    assert tried.returncode == 0, tried.stderr
    assert b"50 records = 50 passed + 0 filtered + 0 dead + 0 blank" in tried.stderr
    results = [json.loads(line) for line in tried.stdout.splitlines()]
    assert {each["topic"] for each in results} == {"my_events.counts"}
    assert sum(each["value"]["n"] for each in results) == 50


def test_a_large_file_gives_its_first_and_last_records(tmp_path):
    (tmp_path / "a.jsonl").write_bytes(b"\n".join(lines("taxi", 100)) + b"\n")
    printed = tidemark("infer", "a.jsonl", "--records", "20", folder=tmp_path).stdout.decode()
    assert "# 40 records = 40 that fit" in printed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [(["no.jsonl"], "infer no.jsonl: No such file"), (["-"], "infer -: there are no records")],
)
def test_mistakes_are_one_line_and_exit_status_2(arguments, words, tmp_path):
    shown = tidemark("infer", *arguments, folder=tmp_path)
    assert (shown.returncode, shown.stdout) == (2, b"")
    (line,) = shown.stderr.decode().splitlines()
    assert words in line
