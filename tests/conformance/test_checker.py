"""The checker can fail: it reports wrong expectations and refuses files without cases."""

import json
from dataclasses import replace
from typing import Any

import pytest

from tests.forked import tidemark
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


def test_an_unknown_word_is_an_error_of_the_run(close):
    for name, word in (("aggregate", "guess"), ("emit", "sometimes"), ("window", {"type": "odd"})):
        unknown = word if isinstance(word, str) else word["type"]
        with pytest.raises(ConformanceError, match=f"{unknown}' is unknown"):
            judge(replace(close, spec={**close.spec, name: word}))


WINDOW = {"type": "tumbling", "size_ms": 10}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"spec": {"timeout_ms": 5}}, "spec: 'timeout_ms' is unknown"),
        ({"spec": {"window": {**WINDOW, "step": 5}}}, "spec.window: 'step' is unknown"),
        ({"spec": {"window": {"type": "tumbling"}}}, "spec.window.size_ms is missing"),
        ({"spec": {"window": {"type": "count", "size": 3, "step": 1}}}, "'step' is unknown"),
        ({"spec": {"watermark": {"type": "explicit", "delay_ms": 1}}}, "'delay_ms' is unknown"),
        ({"spec": {"watermark": {"type": "moon"}}}, "spec.watermark.type 'moon' is unknown"),
        ({"spec": {"accumulation": "retracting"}}, "spec.accumulation 'retracting' is unknown"),
        ({"counters": {"late_rows": 1}}, "counters: 'late_rows' is unknown"),
        ({"value_counts": {"1": 2}}, "the case: 'value_counts' is unknown"),
        ({"input": [{"key": "k", "ts": 1, "value": 1, "weight": 2}]}, "input 0: 'weight' is"),
        ({"input": [{"bundle": [{"key": "k", "ts": 1, "v": 1}]}]}, "input 0: bundle: 'v' is"),
    ],
)
def test_an_unknown_parameter_is_an_error_of_the_run(tmp_path, change, complaint):  # D11
    plain: dict[str, Any] = CLOSE["spec"]  # type: ignore[assignment]  # a literal of many kinds
    spec = {**plain, **change.get("spec", {})}
    file = written(tmp_path, {**CLOSE, **change, "spec": spec})
    with pytest.raises(ConformanceError, match=complaint) as caught:
        read_cases([file])
    assert "case 0 (close): " in str(caught.value)
    shown = conformance(file)
    assert (shown.returncode, shown.stdout) == (2, b"")


@pytest.mark.parametrize("emit", ["on_close", "state"])
def test_counters_are_compared_whatever_is_asked(close, emit):
    counted = replace(close, spec={**close.spec, "emit": emit}, more={"counters": {"late": 2}})
    assert "late: expected 2, got 1" in failed(counted)


def test_no_rule_looks_at_the_expected_results(case):
    """The rule by which a case is not offered follows from its parameters alone."""
    if judge(case).outcome is Outcome.NOT_OFFERED:
        other = ({"key": "?", "start": 0, "end": 0, "value": "altered", "kind": "on_time"},)
        for expected in ((), other):
            altered = judge(replace(case, expected=expected))
            assert (altered.outcome, altered.instead) == (Outcome.NOT_OFFERED, judge(case).instead)


def test_no_exclusion_is_wider_than_its_rule(case, monkeypatch):  # D11
    """A case that is not offered differs when it is run, or cannot be run at all."""
    if not judge(case).instead:
        return
    monkeypatch.setattr("tidemark.conformance.judge.require_offered", lambda _case: None)
    try:
        verdict = judge(case)
    except ConformanceError:
        return
    assert verdict.outcome is not Outcome.PASSED


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
    """Whatever passes must fail once its first expectation says something else.

    It is the last one where the case asserts only the final results.
    """
    if judge(case).outcome is not Outcome.PASSED or not case.expected:
        return
    last = len(case.expected) - 1 if case.spec.get("assert_final_only") else 0
    first = case.expected[last]
    others = [*case.expected[:last], *case.expected[last + 1 :]]
    names = ("value", "start", "watermark", "status", "after", "ts", "match")
    name = next(name for name in names if name in first)
    altered = replace(case, expected=({**first, name: "altered"}, *others))
    assert judge(altered).outcome is Outcome.FAILED


def conformance(*files):
    return tidemark("conformance", *map(str, files))


def test_the_command_ends_with_the_count_and_tells_by_its_status(tmp_path):
    shown = conformance(written(tmp_path, CLOSE))
    assert (shown.stdout.splitlines()[-1], shown.returncode) == (b"1 passed, 0 failed", 0)
    wrong = {**CLOSE, "id": "wrong", "expected": []}
    shown = conformance(written(tmp_path, CLOSE, wrong))
    assert (shown.stdout.splitlines()[-1], shown.returncode) == (b"1 passed, 1 failed", 1)
    assert b"FAILED wrong (neutral): the window closes at its end" in shown.stdout


def test_a_missing_file_is_one_line_and_exit_status_2(tmp_path):
    shown = conformance(tmp_path / "nowhere.json")
    assert (shown.returncode, shown.stdout) == (2, b"")
    assert b"nowhere.json: No such file" in shown.stderr


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
