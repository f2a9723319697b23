"""Reasons stay few whatever comes."""

from tidemark.runtime.service.reasons import OTHERS, Reasons, ReasonStats


def test_reasons_that_differ_in_numbers_and_quoted_text_are_one():
    reasons = Reasons()
    reasons.add([("parse", "'x' at 3 is no number"), ("parse", "'y' at 17 is no number")])
    reasons.add([("sink", "'y' at 17 is no number")])
    assert reasons.stats() == [
        ReasonStats("'...' at N is no number", 2, "parse"),
        ReasonStats("'...' at N is no number", 1, "sink"),
    ]


def test_a_rule_that_changed_or_ended_is_one_reason_whatever_its_name():
    reasons = Reasons()
    reasons.add([("", "rule hot changed"), ("", "rule it's a day changed"), ("", "rule 7 ended")])
    assert reasons.stats() == [ReasonStats("rule ... changed", 2), ReasonStats("rule ... ended", 1)]


def test_the_number_and_the_length_of_reasons_is_bounded_and_no_count_is_lost():
    reasons = Reasons()
    for number in range(500):
        reasons.add([("", "x" * (number + 1))])
    found = reasons.stats()
    assert len(found) == 21
    assert found[0].reason == OTHERS
    assert sum(each.count for each in found) == 500
    assert max(len(each.reason) for each in found) <= 200
