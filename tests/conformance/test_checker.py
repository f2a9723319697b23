"""The checker can fail: it reports wrong expectations and refuses files without cases."""

import json
import subprocess
import sys
from dataclasses import replace

import pytest

from tidemark.conformance.case import Case, ConformanceError, read_cases
from tidemark.conformance.judge import Outcome, judge
from tidemark.conformance.report import lines
from tidemark.conformance.rules import RULES

CLOSE = {
    "id": "close",
    "dialect": "neutral",
    "note": "the window closes at its end",
    "spec": {
        "window": {"type": "tumbling", "size_ms": 10},
        "aggregate": "sum",
        "allowed_lateness_ms": 0,
        "watermark": {"type": "explicit"},
        "emit": "on_close",
        "late_output": True,
    },
    "input": [
        {"key": "k", "ts": 1, "value": 1},
        {"key": "k", "ts": 9, "value": 2},
        {"watermark": 10},
        {"key": "k", "ts": 3, "value": 4},
    ],
    "expected": [
        {"key": "k", "start": 0, "end": 10, "value": 3, "kind": "on_time", "after": 2},
        {"key": "k", "ts": 3, "value": 4, "kind": "late", "after": 3},
    ],
    "compare": "ordered",
}


def written(tmp_path, *cases, text=None):
    file = tmp_path / "cases.json"
    file.write_text(json.dumps(cases) if text is None else text)
    return file


@pytest.fixture
def close(tmp_path):
    (case,) = read_cases([written(tmp_path, CLOSE)])
    return case


def failed(case: Case) -> str:
    verdict = judge(case)
    assert verdict.outcome is Outcome.FAILED
    return "\n".join(lines([verdict]))


def test_a_right_case_passes(close):
    assert list(lines([judge(close)])) == ["1 passed, 0 failed"]


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        *(("key", "j"), ("start", 1), ("end", 11), ("value", 4), ("value", None), ("after", 1)),
        *(("kind", "update"), ("value", 3.5), ("ts", 1), ("no such field", 0)),
    ],
)
def test_each_wrong_field_is_reported_with_what_came_instead(close, field, wrong):
    first, second = close.expected
    shown = failed(replace(close, expected=({**first, field: wrong}, second)))
    assert json.dumps(wrong) in shown
    assert json.dumps(dict(first))[1:-1] in shown
    assert shown.endswith("0 passed, 1 failed")


def test_missing_and_unexpected_results_are_reported(close):
    first, second = close.expected
    assert "unexpected" not in failed(replace(close, expected=(first,)))
    assert "nothing more" in failed(replace(close, expected=(first,)))
    assert "nothing more" in failed(replace(close, expected=(first, second, second)))
    failed(replace(close, expected=()))


def test_order_counts_where_the_case_says_so(close):
    first, second = close.expected
    swapped = replace(close, expected=(second, first))
    failed(swapped)
    assert judge(replace(swapped, compare="multiset")).outcome is Outcome.PASSED
    assert judge(replace(swapped, compare="ordered_per_window")).outcome is Outcome.PASSED


def test_counters_are_compared(close):
    assert judge(replace(close, more={"counters": {"dropped": 1}})).outcome is Outcome.PASSED
    assert "dropped: expected 2, got 1" in failed(replace(close, more={"counters": {"dropped": 2}}))


def test_unknown_words_fail_and_are_named(close):
    for name, word in (("aggregate", "guess"), ("emit", "sometimes"), ("window", {"type": "odd"})):
        unknown = word if isinstance(word, str) else word["type"]
        assert unknown in failed(replace(close, spec={**close.spec, name: word}))


def test_an_option_that_is_not_offered_is_listed_but_fails_a_neutral_case(close):
    window = {"type": "session", "gap_ms": 10, "gap_boundary": "inclusive"}
    asked = replace(close, dialect="flink", spec={**close.spec, "window": window})
    verdict = judge(asked)
    assert verdict.outcome is Outcome.NOT_OFFERED
    first, *_, last = lines([verdict])
    assert first == f"not offered  close  D1: {RULES['D1']}"
    assert last == "0 passed, 0 failed"
    failed(replace(asked, dialect="neutral"))


def test_changed_expectations_of_the_shared_cases_fail(case):
    """Whatever passes must fail once its first expectation says something else."""
    if judge(case).outcome is not Outcome.PASSED or not case.expected:
        return
    first, *others = case.expected
    name = next(n for n in ("value", "start", "watermark", "status", "after", "ts") if n in first)
    altered = replace(case, expected=({**first, name: "altered"}, *others))
    assert judge(altered).outcome is Outcome.FAILED


def conformance(*files):
    return subprocess.run(
        [sys.executable, "-m", "tidemark", "conformance", *map(str, files)],
        capture_output=True,
        check=False,
        text=True,
    )


def test_the_command_ends_with_the_count_and_tells_by_its_status(tmp_path):
    shown = conformance(written(tmp_path, CLOSE))
    assert (shown.stdout.splitlines()[-1], shown.returncode) == ("1 passed, 0 failed", 0)
    wrong = {**CLOSE, "id": "wrong", "expected": []}
    shown = conformance(written(tmp_path, CLOSE, wrong))
    assert (shown.stdout.splitlines()[-1], shown.returncode) == ("1 passed, 1 failed", 1)
    assert "FAILED wrong (neutral): the window closes at its end" in shown.stdout


def test_a_missing_file_is_one_line_and_exit_status_2(tmp_path):
    shown = conformance(tmp_path / "nowhere.json")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "nowhere.json: No such file" in shown.stderr


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "not JSON"),
        ("{}", "a dict, not an array"),
        ("[1]", "case 0: 1 is not an object"),
        (json.dumps([{**CLOSE, "input": None}]), r"case 0 \(close\): input is None, not list"),
        (json.dumps([{**CLOSE, "input": [3]}]), "input holds more than objects"),
        (json.dumps([{**CLOSE, "compare": "roughly"}]), "compare 'roughly'"),
        (json.dumps([{**CLOSE, "spec": {}}]), "spec.window None has no type"),
        (json.dumps([{**CLOSE, "spec": {"window": {"type": "none"}}}]), "spec.emit is None"),
        (json.dumps([CLOSE, CLOSE]), "case 1: id 'close' is used twice"),
    ],
)
def test_files_that_are_none_are_refused(tmp_path, text, complaint):
    with pytest.raises(ConformanceError, match=complaint):
        read_cases([written(tmp_path, text=text)])
