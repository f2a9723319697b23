"""Joins that come, go and change between deployments: docs/operations.md, "Changing a pipeline"."""

from tests.plan.deployments import deployed, record_of
from tidemark import Pipeline, bounded, col, count, tumbling
from tidemark.language.keyed import KeyedStream
from tidemark.plan.changes import changes, signature_changes
from tidemark.plan.physical import Plan
from tidemark.plan.placement import placed
from tidemark.plan.program import program_of
from tidemark.plan.recording import recorded_after


def side(pipeline: Pipeline, topic: str, value: str, least: int) -> KeyedStream:
    schema = {"id": str, "at": int, value: int}
    rows = pipeline.source(topic, schema=schema, event_time="at", watermark=bounded(0))
    return rows.filter(col("at") >= least).key_by("id")


def planned(*names: str, within: str = "1m", least: int = 0, alone: bool = True) -> Plan:
    """Return the plan of a join for each name; ``alone``: adds an output on the orders.

    Without names the plan has no payments.
    """
    pipeline = Pipeline("shop", partitions=2)
    orders = side(pipeline, "orders", "price", least)
    if alone:
        orders.window(tumbling("1m")).aggregate(n=count()).to("orders-a-minute")
    if names:
        payments = side(pipeline, "payments", "paid", least)
    for name in names:
        orders.join(payments, within=within).to(name)
    return pipeline.plan()


def ruled(*, broadcast: bool = True) -> Plan:
    """Return the plan of orders with limits: those of all keys, or of the same one."""
    pipeline = Pipeline("shop", partitions=2)
    orders = side(pipeline, "orders", "price", 0)
    orders.window(tumbling("1m")).aggregate(n=count()).to("orders-a-minute")
    limits = side(pipeline, "limits", "most", 0).table(keep="1d")
    orders.join(limits.broadcast() if broadcast else limits).to("limited")
    return pipeline.plan()


def test_a_new_join_of_streams_that_a_log_has_is_built_from_the_log():
    plan, _ = deployed(record_of(planned("first")), planned("first", "second"))
    (log,) = plan.logs
    assert {each.log for each in plan.operators} == {log.topic}
    assert [each.name for each in log.streams] == ["orders", "payments"]


def test_a_join_with_a_stream_that_no_log_has_gets_a_log_with_both():
    """A log lacks the rows of a stream before it was written, so both begin in a new one."""
    before = record_of(planned())
    plan, _ = deployed(before, planned("paid"))
    minute, join = plan.operators
    assert minute.log == "shop.by-id.log"
    assert join.log == "shop.by-id.2.log"
    (new,) = (log for log in plan.logs if log.topic == join.log)
    assert {each.name for each in new.streams} == join.operator.streams


def test_a_join_that_goes_or_is_renamed_leaves_the_others_where_they_are():
    before = record_of(planned("first", "second"))
    plan, after = deployed(before, planned("third", "second"))
    assert len(plan.logs) == 1
    back, _ = deployed(after, planned("first", "second"))
    assert [each.topic for each in back.logs] == [each.topic for each in plan.logs]


def test_another_time_of_a_join_is_another_state():
    before, after = planned("paid"), planned("paid", within="2m")
    there, _ = deployed(record_of(before), after)
    old, new = (plan.operators[-1].state_signature for plan in (before, there))
    assert signature_changes(old, new) == (
        "join 'inner join within (-1m, 1m)' is now 'inner join within (-2m, 2m)'"
    )


def test_another_filter_before_a_join_is_refused_and_names_the_join():
    before = record_of(planned("paid", alone=False))
    found = changes(before, program_of(placed(planned("paid", least=5, alone=False), before)))
    assert {each.outputs for each in found} == {("paid",)}
    assert len(found) == 2  # the choice of rows of each side


def test_the_signature_names_streams_as_they_are_placed():
    first = record_of(planned("paid"))
    second = recorded_after(first, program_of(placed(planned("paid", least=5), first)))
    plan = placed(planned("paid", least=5), second)
    (join,) = (each for each in plan.operators if each.name == "paid")
    named = {join.state_signature[f"{side} stream"] for side in ("left", "right")}
    assert named == join.operator.streams == {each.streams[0] for each in join.operator.inputs}
    assert named != {"orders", "payments"}


def test_a_broadcast_table_begins_in_a_new_log_beside_the_rows():
    before = record_of(planned())
    plan, after = deployed(before, ruled())
    _, join = plan.operators
    (new,) = (log for log in plan.logs if log.topic == join.log)
    assert join.log == "shop.by-id.2.log"
    assert [(each.name, each.is_broadcast) for each in new.streams] == [
        ("orders#2", False),
        ("limits", True),
    ]
    assert deployed(after, ruled())[0].fingerprint == plan.fingerprint


def test_a_table_that_is_broadcast_from_now_on_needs_a_reset():
    """The partitions of the log lack the versions of other keys."""
    before = record_of(ruled(broadcast=False))
    rows, columns = changes(before, program_of(placed(ruled(), before)))
    assert rows.outputs == columns.outputs == ("limited",)
    assert rows.after.endswith("table(id=id), broadcast to id")
