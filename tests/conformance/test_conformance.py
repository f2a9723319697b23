"""Each case through the real operators: neutral ones pass, others by the options offered."""

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.conformance.conftest import FOLDER, all_cases
from tests.conformance.not_yet import NOT_YET
from tidemark.conformance.judge import Outcome, judge
from tidemark.conformance.report import failure_lines
from tidemark.conformance.rules import RULES

DOCUMENT = Path(__file__).parents[2] / "docs" / "semantics.md"
CASES = {case.id: case for case in all_cases()}


def test_the_cases_are_there():
    assert CASES, f"no cases in {FOLDER}"


def test_what_is_not_yet_is_a_case():
    """The list must shrink: a case that was renamed or went away is no excuse."""
    assert set(NOT_YET) <= set(CASES)


def test_case(case):
    verdict = judge(case)
    if case.id in NOT_YET:
        assert verdict.outcome is Outcome.FAILED, (
            f"{case.id} {verdict.outcome}: take it off NOT_YET"
        )
        pytest.xfail(NOT_YET[case.id])
    assert verdict.outcome is not Outcome.FAILED, "\n".join(failure_lines(verdict))
    if case.is_neutral:
        assert verdict.outcome is Outcome.PASSED


def test_restarts_do_not_show(case):
    if case.id in NOT_YET:
        pytest.xfail(NOT_YET[case.id])
    verdict = judge(case, restart_often=True)
    assert verdict.outcome is not Outcome.FAILED, "\n".join(failure_lines(verdict))


def test_late_panes_of_a_case_come_by_count():
    """Early panes of this case cut its bundles; without them, its late panes are ours."""
    case = CASES["trigger-04-early-late-discarding"]
    (on_time,) = (pane for pane in case.expected if pane["kind"] == "on_time")
    values = [
        value for pane in case.expected for value in pane["value"] if pane["kind"] != "update"
    ]
    expected = [
        {**on_time, "value": values},
        *(pane for pane in case.expected if pane["kind"] == "update"),
    ]
    trigger = {"after_watermark": {"late": {"count": 2}}}

    verdict = judge(replace(case, spec={**case.spec, "trigger": trigger}, expected=tuple(expected)))

    assert verdict.outcome is Outcome.PASSED, "\n".join(failure_lines(verdict))


def test_the_documentation_names_each_rule_and_each_case_that_is_not_offered():
    text = DOCUMENT.read_text()
    for name, rule in RULES.items():
        assert re.search(rf"^\| {name} \|.*\| {re.escape(rule)} \|$", text, re.MULTILINE), name
    listed = text.partition("Not offered, by the rule followed instead:")[2].partition("\n## ")[0]
    for entry in re.split(r"\n\* ", listed)[1:]:
        rule, _, names = entry.partition(":")
        assert rule in RULES
        for name in re.findall(r"`([^`]+)`", names):
            verdict = judge(CASES[name]) if name in CASES else None
            assert verdict is None or verdict.instead.startswith(f"{rule}:"), name
