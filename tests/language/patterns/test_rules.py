"""``match`` with rules as users write it: patterns that come as rows of a table."""

import pytest

from tests.support.mistakes import refused
from tests.support.patterns.rule_texts import SMOKE, text
from tidemark import Pipeline, bounded, col, count, sequence, step
from tidemark import max as largest
from tidemark.errors import TableTooLargeError
from tidemark.testing import InProcess, Message

MINUTE_MS = 60_000
READING = {"room": str, "kind": str, "at": int, "celsius": float}
RULE = {"id": str, "at": int, "rule": str}


def house(**options):
    """Return a pipeline with keyed readings and rules."""
    pipeline = Pipeline("house", **options)
    readings, rules = (
        pipeline.source(topic, schema=schema, event_time="at", watermark=bounded("0s"))
        for topic, schema in (("readings", READING), ("rules", RULE))
    )
    return pipeline, readings.key_by("room"), rules.key_by("id")


def table(rules, **options):
    return rules.table(keep="365d", deleted=col("rule") == "").broadcast(**options)


def found_of(readings, rules, **options):
    matches = readings.match(table(rules), rule="rule", max_within="1h", **options)
    return matches.select(since="first.at", until="last.at")


def rule(minute, rule, name="fire"):
    return {"id": name, "at": minute * MINUTE_MS, "rule": rule}


END = rule(20, "", "end")


def reading(minute, celsius=None, kind="temperature", room="attic"):
    return {"room": room, "kind": kind, "at": minute * MINUTE_MS, "celsius": celsius}


def smoke(minute, room="attic"):
    return reading(minute, None, "smoke", room)


def minutes(matches):
    return [
        (each["rule"], each["since"] // MINUTE_MS, each["until"] // MINUTE_MS) for each in matches
    ]


TWICE = text({"name": "hot", "where": "celsius > 80", "times": 2})
SENT = {
    "rules": (rule(0, text()), rule(5, TWICE), rule(12, ""), END),
    "readings": (
        *(reading(1, 90.0), smoke(2), *(reading(each, 90.0) for each in (4, 6, 7, 10, 13))),
        reading(20, 0.0),
    ),
}


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("order", [("rules", "readings"), ("readings", "rules")])
def test_rows_meet_the_rules_of_their_time(order, partitions):
    """The timeline of docs/semantics.md, "Rules"."""
    pipeline, readings, rules = house(partitions=partitions)
    found_of(readings, rules).to("found")
    run = InProcess(pipeline)
    for topic in order:
        run.send(topic, *SENT[topic])
    assert minutes(run.published("found")) == [("fire", 1, 2), ("fire", 6, 7)]
    dropped = [(row["event_time_ms"] // MINUTE_MS, row["reason"]) for row in run.late("found")]
    assert dropped == [(4, "rule fire changed"), (10, "rule fire ended")]


def test_two_rules_may_find_the_same_rows():
    pipeline, readings, rules = house()
    matches = readings.match(table(rules), rule="rule", max_within="1h").select(
        since="first.at", until="last.at", hot="hot.celsius", n=count("hot"), m=largest("cold.at")
    )
    matches.to("found")
    matches.key_by("rule").to("by-rule")
    run = InProcess(pipeline)
    warm = text({"name": "warm", "where": "celsius > 60"}, SMOKE)
    run.send("rules", rule(0, text()), rule(0, warm, "warm"), END)
    run.send("readings", reading(1, 90.0), smoke(2), reading(20))
    found = run.published("found")
    assert minutes(found) == [("fire", 1, 2), ("warm", 1, 2)]
    assert [(each["hot"], each["n"], each["m"]) for each in found] == [
        (90.0, 1, None),
        (None, 0, None),
    ]
    assert len({each["_id"] for each in found}) == 2
    assert {each["rule"] for each in run.published("by-rule")} == {"fire", "warm"}


def test_timeouts_of_rules_are_a_stream():
    pipeline, readings, rules = house()
    found_of(readings, rules).timeouts.to("nearly")
    run = InProcess(pipeline)
    run.send("rules", rule(0, text()), END)
    run.send("readings", reading(1, 90.0), reading(20))
    (nearly,) = run.published("nearly")
    assert (nearly["rule"], nearly["_event_time_ms"]) == ("fire", 11 * MINUTE_MS - 1)


def test_a_rule_that_comes_again_goes_on():
    pipeline, readings, rules = house()
    found_of(readings, rules).to("found")
    run = InProcess(pipeline)
    run.send("rules", rule(0, text()), rule(2, text()), END)
    run.send("readings", reading(1, 90.0), smoke(3), reading(20))
    assert minutes(run.published("found")) == [("fire", 1, 3)]
    assert run.late("found") == []


def test_a_bad_rule_is_a_dead_letter_and_the_rule_before_it_goes_on():
    pipeline, readings, rules = house(partitions=4)
    found_of(readings, rules).to("found")
    run = InProcess(pipeline)
    kelvin = text({"name": "hot", "where": "kelvin > 300"})
    bad = ["{", kelvin, text(within="2h"), text({"name": "a", "where": "kind > 3"}), None]
    run.send("rules", rule(0, text()), *(rule(2, each) for each in bad), END)
    run.send("readings", reading(1, 90.0), smoke(3), reading(20))
    assert minutes(run.published("found")) == [("fire", 1, 3)]
    letters = run.dead_letters()
    assert [(each["topic"], each["partition"], each["offset"]) for each in letters] == [
        ("rules", 0, offset) for offset in range(1, 6)
    ]
    wanted = [
        "rule: the rule is not JSON of version 1: ",
        "rule: steps[0].where: condition: the stream has no column 'kelvin'",
        "rule: within: 2h is longer than 1h, the max_within of match()",
        "rule: steps[0].where: 'kind > 3': it compares a text with a number",
        "rule: rule is null",
    ]
    for letter, reason in zip(letters, wanted, strict=True):
        assert letter["reason"].startswith(reason)
        assert letter["stage"] == "found"


def test_on_arrival_a_rule_counts_from_the_clock_on():
    pipeline, readings, rules = house()
    found_of(readings, rules, wait="arrival").to("found")
    run = InProcess(pipeline)
    run.send("rules", rule(400, "", "end"))  # the clock is that of the readings from here on
    run.send("readings", reading(1, 90.0), smoke(2), reading(3))
    run.send("rules", rule(500, text()))  # its event time is far ahead
    run.send("readings", reading(4, 90.0), smoke(5), reading(6))
    assert minutes(run.published("found")) == [("fire", 4, 5)]


def test_a_record_without_a_value_ends_a_rule():
    pipeline, readings, rules = house()
    found_of(readings, rules).to("found")
    run = InProcess(pipeline)
    gone = Message(None, key="fire", timestamp_ms=3 * MINUTE_MS)
    run.send("rules", rule(0, text()), gone, END)
    run.send("readings", *(each for at in (1, 4) for each in (reading(at, 90.0), smoke(at + 1))))
    run.send("readings", reading(20))
    assert minutes(run.published("found")) == [("fire", 1, 2)]


def test_more_rules_than_the_bound_stop_the_operator():
    pipeline, readings, rules = house()
    few = table(rules, max_rows=1)
    readings.match(few, rule="rule", max_within="1h").select(since="first.at").to("found")
    run = InProcess(pipeline)
    with pytest.raises(TableTooLargeError, match="found: the broadcast table has 2 keys"):
        run.send("rules", rule(0, text()), rule(0, text(), "other"))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda r, t: r.match(t, max_within="1h"), "match(rule): missing; name the column"),
        (lambda r, t: r.match(t, rule="rule"), "match(max_within): missing"),
        (lambda r, t: r.match(t, rule="text", max_within="1h"), "no column 'text'"),
        (lambda r, t: r.match(t, rule="at", max_within="1h"), "a rule is JSON in a text column"),
        (
            lambda r, t: r.match(t, rule="rule", max_within="1h", skip="none"),
            "match(skip): each rule says its own",
        ),
        (
            lambda r, t: r.match(t, rule="rule", max_within="1h", max_partial=0),
            "match(max_partial): 0 is not",
        ),
        (
            lambda r, t: r.match(sequence(a=step(col("at") > 1)).within("1m"), rule="rule"),
            "match: rule, max_within and wait are options of rules",
        ),
        (
            lambda r, t: r.match(t, rule="rule", max_within="1h").select(rule="first.at"),
            "select(rule): it clashes with a field of every match",
        ),
        (
            lambda r, t: r.match(t, rule="rule", max_within="1h").select(a="first.height"),
            "no column 'height'",
        ),
        (
            lambda r, t: r.match(t, rule="rule", max_within="1h").select(a="at"),
            "'at' is not a column of a step; a rule may have a step of any name but first and last",
        ),
        (
            lambda r, t: r.match(t, rule="rule", max_within="1h").select(a=largest("first.at")),
            'select(a): max("first.at") names no step; a rule may have a step of any name but',
        ),
        (
            lambda r, t: r.match(t, rule="rule", max_within="1h").select(a="first.at").late,
            "late: matches of rules have no such stream",
        ),
    ],
)
def test_mistakes_are_refused(build, message):
    _, readings, rules = house()
    with refused(message):
        build(readings, table(rules))


def test_what_deletes_a_rule_is_a_part_of_the_state():
    texts = set()
    for tombstones in (True, False):
        pipeline, readings, rules = house()
        known = rules.table(keep="1d", tombstones=tombstones).broadcast()
        found = readings.match(known, rule="rule", max_within="1h").select(since="first.at")
        found.to("alarms")
        (operator,) = pipeline.plan().operators
        texts.add(operator.state_signature["pattern"])
    assert texts == {
        "rules of rule, at most 1h, keep 1d, tombstones",
        "rules of rule, at most 1h, keep 1d",
    }
