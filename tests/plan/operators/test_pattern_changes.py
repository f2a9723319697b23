"""Patterns that come, go and change between deployments: docs/operations.md, "Changing a pipeline".

Which changes the state of a pattern survives is in tests/language/patterns/test_patterns.py.
"""

from tests.plan.deployments import deployed, record_of
from tidemark import Pipeline, bounded, col, count, sequence, step, tumbling
from tidemark.plan.changes import changes, signature_changes
from tidemark.plan.physical import Plan
from tidemark.plan.placement import placed
from tidemark.plan.program import program_of


def planned(
    *names: str, within: str = "1m", least: int = 0, chained: bool = False, **values: str
) -> Plan:
    """Return the plan of a pattern for each name, beside counts of the same rows.

    ``chained``: counts the matches, too, and those of timeouts.
    """
    pipeline = Pipeline("house", partitions=2)
    schema = {"room": str, "at": int, "celsius": float}
    rows = pipeline.source("readings", schema=schema, event_time="at", watermark=bounded(0))
    rooms = rows.filter(col("at") >= least).key_by("room")
    rooms.window(tumbling("1m")).aggregate(n=count()).to("readings-a-minute")
    rise = sequence(warm=step(col("celsius") > 30), hot=step(col("celsius") > 80)).within(within)
    found = rooms.match(rise).select(**values)
    for name in names:
        found.to(name)
    if chained:
        found.key_by("room").window(tumbling("1h")).aggregate(n=count()).to("rises-an-hour")
        found.timeouts.key_by("room").window(tumbling("1h")).aggregate(n=count()).to("others")
    return pipeline.plan()


def test_a_new_pattern_is_built_from_the_log_of_its_rows():
    plan, after = deployed(record_of(planned()), planned("rises", hot_at="hot.at"))
    (log,) = plan.logs
    assert {each.log for each in plan.operators} == {log.topic}
    assert plan.services() == ("ingest", "windowing", "patterns")
    again, _ = deployed(after, planned())
    assert again.services() == ("ingest", "windowing")


def test_a_new_chain_after_a_pattern_has_logs_of_matches_and_of_timeouts():
    plan, _ = deployed(record_of(planned("rises")), planned("rises", chained=True))
    assert {each.operator for each in plan.derived} == {
        "room.warm-hot.matches",
        "room.warm-hot.timeouts",
    }


def test_another_time_of_a_pattern_is_another_state():
    before, after = planned("rises"), planned("rises", within="2m")
    there, _ = deployed(record_of(before), after)
    old, new = (plan.operators[-1].state_signature for plan in (before, there))
    found = signature_changes(old, new)
    assert found.startswith("pattern 'warm: ")
    assert "within 1m" in found.partition("' is now '")[0]
    assert "within 2m" in found.partition("' is now '")[2]


def test_another_value_of_a_pattern_goes_on_with_its_log_and_its_state():
    before, after = planned("rises"), planned("rises", hot_at="hot.at")
    there, _ = deployed(record_of(before), after)
    old, new = (plan.operators[-1].state_signature for plan in (before, there))
    assert signature_changes(old, new) == ""
    assert {each.log for each in there.operators} == {each.log for each in before.operators}


def test_another_filter_before_a_pattern_is_refused_and_names_it():
    before = record_of(planned("rises"))
    found = changes(before, program_of(placed(planned("rises", least=5), before)))
    assert {each.outputs for each in found} == {("readings-a-minute", "rises")}
