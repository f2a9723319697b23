"""``broadcast`` and joins with broadcast tables as users write them."""

import json

import pytest

from tests.support.mistakes import moves, refused
from tidemark import Pipeline, bounded, col, count, on_close, tumbling
from tidemark import max as largest
from tidemark.errors import TableTooLargeError
from tidemark.local.run import Cuts, LocalRun
from tidemark.plan.explain import render_text
from tidemark.testing import InProcess, Message

READING = {"machine": str, "at": int, "value": int}
RULE = {"rule": str, "at": int, "above": int, "op": str}
OVER = col("value") > col("above")


def plant(name="plant", **options):
    """Return a pipeline with keyed readings and rules."""
    pipeline = Pipeline(name, **options)
    readings, rules = (
        pipeline.source(topic, schema=schema, event_time="at", watermark=bounded("0s"))
        for topic, schema in (("readings", READING), ("rules", RULE))
    )
    return pipeline, readings.key_by("machine"), rules.key_by("rule")


def rule(name, at, above, op="u"):
    return {"rule": name, "at": at, "above": above, "op": op}


def reading(machine, at, value):
    return {"machine": machine, "at": at, "value": value}


def keyed(pipeline, topic, *key):
    return moves(pipeline, topic).key_by(*key or ("player",))


def table(pipeline, **options):
    return keyed(pipeline, "b", "score").table(keep="1d").broadcast(**options)


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda p: keyed(p, "a").join(table(p), how="full"),
            "join(how): 'full' asks for versions without a row, but each partition has a copy",
        ),
        (
            lambda p: keyed(p, "a").join(table(p), how="right"),
            "write how='inner', 'left', 'semi' or 'anti'",
        ),
        (lambda p: keyed(p, "a").join(table(p), how="most"), "join(how): 'most' is not one of"),
        (
            lambda p: keyed(p, "a").join(table(p), within="1m"),
            "join(within): a join with a table has no such option; leave it out",
        ),
        (
            lambda p: keyed(p, "a").join(table(p), keep="1m"),
            "join(keep): a join with a table has no such option; leave it out",
        ),
        (
            lambda p: keyed(p, "a").join(table(p), allowed_lateness="1m", trigger=on_close()),
            "join(trigger): a join with a broadcast table answers a row once",
        ),
        (
            lambda p: keyed(p, "a").join(table(p), on=col("score")),
            'join(on=col("score")): it gives Int64, not one Boolean',
        ),
        (lambda p: keyed(p, "a").join(table(p), max_pairs=0), "join(max_pairs): 0 is not"),
        (lambda p: table(p, max_rows=True), "broadcast(max_rows): True is not a positive integer"),
        (lambda p: moves(p, "a").key_by().join(table(p)), "join: key_by() has no column"),
        (lambda p: moves(p, "a").join(table(p)), "call key_by() first"),
        (lambda p: table(p).to("x"), "to: a broadcast table has no such method; join a stream"),
        (
            lambda p: keyed(p, "a").join(table(p)).aggregate(n=count()),
            "aggregate: a join with a broadcast table has no such method",
        ),
        (lambda p: keyed(p, "a").join(table(Pipeline("q"))), "belong to two pipelines"),
    ],
)
def test_mistakes_are_refused(build, message):
    with refused(message):
        build(Pipeline("p"))


RULES = (
    rule("hot", 10, 80),
    rule("hotter", 10, 90),
    rule("hot", 20, 70),
    rule("hotter", 30, 0, "d"),
    rule("end", 60, 0, "d"),
)
READINGS = (
    reading("a", 15, 85),
    reading("b", 15, 95),
    reading("a", 25, 75),
    reading("b", 35, 95),
    reading("a", 40, 5),
    reading("end", 60, 0),
)
PAIRS = [
    ("a", 15, "hot", 80),
    ("a", 25, "hot", 70),
    ("b", 15, "hot", 80),
    ("b", 15, "hotter", 90),
    ("b", 35, "hot", 70),
]


@pytest.mark.parametrize("partitions", [1, 4])
@pytest.mark.parametrize("order", [("rules", "readings"), ("readings", "rules")])
def test_rows_meet_the_rules_of_their_time(order, partitions):
    """The timeline of docs/semantics.md, "Broadcast tables"."""
    pipeline, readings, rules = plant(partitions=partitions)
    known = rules.table(keep="1h", deleted=col("op") == "d").broadcast()
    readings.join(known, on=OVER).to("alarms")
    readings.join(known, on=OVER, how="left").to("every")
    readings.join(known, on=OVER, how="semi").to("over")
    readings.join(known, on=OVER, how="anti").to("quiet")
    run = InProcess(pipeline)
    for topic in order:
        run.send(topic, *(RULES if topic == "rules" else READINGS))
    alarms = run.published("alarms")
    found = [(row["machine"], row["at"], row["rule"], row["above"]) for row in alarms]
    assert sorted(found) == PAIRS
    every = [(r["machine"], r["at"], r["rule"], r["above"]) for r in run.published("every")]
    assert sorted(every, key=str) == sorted([*PAIRS, ("a", 40, None, None)], key=str)
    over = [(row["machine"], row["at"]) for row in run.published("over")]
    assert sorted(over) == [("a", 15), ("a", 25), ("b", 15), ("b", 35)]
    assert [(row["machine"], row["at"]) for row in run.published("quiet")] == [("a", 40)]
    assert len({row["_id"] for row in alarms}) == len(PAIRS)


def test_a_late_rule_counts_from_the_watermark_on_and_one_that_is_too_old_is_reported_once():
    pipeline, readings, rules = plant(partitions=4)
    readings.join(rules.table(keep="50ms").broadcast(), on=OVER).to("alarms")
    run = InProcess(pipeline)
    run.send("rules", rule("first", 100, 1_000))
    run.send("rules", rule("late", 60, 0), rule("older", 49, 0))
    run.send("readings", reading("a", 99, 7), reading("b", 105, 7), reading("c", 200, 0))
    run.send("rules", rule("end", 200, 1_000))
    assert [(r["machine"], r["rule"]) for r in run.published("alarms")] == [("b", "late")]
    (late,) = run.late("alarms")
    assert (late["row"]["rule"], late["reason"]) == ("older", "older than the table keeps versions")


def test_arrival_answers_at_once_by_the_rules_before():
    pipeline, readings, rules = plant()
    readings.join(rules.table(keep="1h").broadcast(), on=OVER, wait="arrival").to("alarms")
    run = InProcess(pipeline)
    run.send("readings", reading("a", 15, 85))
    run.send("rules", rule("hot", 10, 80))
    run.send("readings", reading("a", 16, 85))
    run.send("rules", rule("hot", 14, 90))
    run.send("readings", reading("a", 17, 85))
    assert [row["at"] for row in run.published("alarms")] == [16]


def test_a_record_without_a_value_ends_a_rule():
    pipeline, readings, rules = plant()
    readings.join(rules.table(keep="1h").broadcast(), on=OVER).to("alarms")
    run = InProcess(pipeline)
    run.send("rules", rule("hot", 10, 80), rule("loud", 10, 80))
    run.send("rules", Message(None, key="hot", timestamp_ms=20), rule("end", 40, 1_000))
    run.send("readings", *(reading("a", at, 85) for at in (15, 25)), reading("a", 40, 0))
    found = [(row["at"], row["rule"]) for row in run.published("alarms")]
    assert sorted(found) == [(15, "hot"), (15, "loud"), (25, "loud")]


def test_a_file_is_broadcast(tmp_path):
    (tmp_path / "levels.csv").write_text("level,above\nhigh,80\nhigher,90\n")
    pipeline = Pipeline("plant")
    source = pipeline.source("readings", schema=READING, event_time="at", watermark=bounded("0s"))
    schema = {"level": str, "above": int}
    levels = pipeline.static("levels", tmp_path / "levels.csv", key="level", schema=schema)
    source.key_by("machine").join(levels.broadcast(), on=OVER).to("alarms")
    run = LocalRun(pipeline.plan())
    values = [json.dumps(reading("a", at, value)).encode() for at, value in ((1, 85), (2, 95))]
    list(run.run({"readings": values}))
    rows = run.published["alarms"].every("rows")
    assert sorted(rows.select("at", "level").rows()) == [(1, "high"), (2, "high"), (2, "higher")]
    assert "inner join with a static broadcast table" in render_text(pipeline.plan())


def test_cuts_and_partitions_change_nothing():
    found = []
    for cuts in (None, 1, 2):
        pipeline, readings, rules = plant(partitions=1 if cuts is None else 4)
        known = rules.table(keep="1h", deleted=col("op") == "d").broadcast()
        readings.join(known, on=OVER, how="left").to("every")
        run = LocalRun(pipeline.plan(), Cuts(cuts))
        files = {"readings": READINGS, "rules": RULES}
        list(run.run({name: [json.dumps(row).encode() for row in files[name]] for name in files}))
        rows = run.published["every"].every("rows").drop("end_of_input")
        found.append(sorted(rows.rows(), key=str))
    assert found[0] == found[1] == found[2]


def test_the_counts_have_each_rule_once():
    pipeline, readings, rules = plant(partitions=4)
    readings.join(rules.table(keep="1h").broadcast(), on=OVER).to("alarms")
    run = LocalRun(pipeline.plan())
    files = {"readings": READINGS, "rules": RULES}
    list(run.run({name: [json.dumps(row).encode() for row in files[name]] for name in files}))
    (tally,) = (each.tally for each in run.published.values())
    assert (tally.rows, tally.late) == (len(READINGS) + len(RULES), 0)


def test_a_table_that_outgrows_its_bound_stops_the_join():
    pipeline, readings, rules = plant()
    readings.join(rules.table(keep="1h").broadcast(max_rows=2), on=OVER).to("alarms")
    run = InProcess(pipeline)
    run.send("rules", *(rule(name, 10, 80) for name in ("a", "b", "a")))
    with pytest.raises(TableTooLargeError, match="alarms: the broadcast table has 3 keys, more"):
        run.send("rules", rule("c", 20, 80))


def test_a_row_with_too_many_pairs_is_late():
    pipeline, readings, rules = plant()
    readings.join(rules.table(keep="1h").broadcast(), on=OVER, max_pairs=1).to("alarms")
    run = InProcess(pipeline)
    run.send("rules", *(rule(name, 10, above) for name, above in (("a", 80), ("b", 90))))
    run.send("readings", reading("x", 15, 85), reading("x", 16, 95), reading("x", 40, 0))
    run.send("rules", rule("end", 40, 1_000))
    assert [row["at"] for row in run.published("alarms")] == [15]
    (late,) = run.late("alarms")
    assert (late["row"]["at"], late["reason"]) == (16, "more than 1 pairs")


def test_results_are_a_stream():
    pipeline, readings, rules = plant()
    alarms = readings.join(rules.table(keep="1h").broadcast(), on=OVER)
    alarms.key_by("rule").window(tumbling("10ms")).aggregate(n=count()).to("counts")
    run = InProcess(pipeline)
    run.send("rules", rule("hot", 1, 80), rule("end", 40, 1_000))
    run.send("readings", *(reading(machine, 2, 85) for machine in "abc"), reading("x", 40, 0))
    assert [(row["rule"], row["n"]) for row in run.published("counts")] == [("hot", 3)]


def test_results_of_a_stage_are_broadcast():
    """Each partition of the stage hands its rows to all partitions of the log of the readings."""
    pipeline, readings, rules = plant(partitions=4)
    highest = rules.window(tumbling("10ms")).aggregate(above=largest("above")).key_by("rule")
    readings.join(highest.table(keep="1h").broadcast(), on=OVER).to("alarms")
    run = InProcess(pipeline)
    run.send("rules", *(rule(name, 5, level) for name, level in (("a", 80), ("b", 90), ("c", 99))))
    run.send("readings", *(reading(machine, 50, 95) for machine in "uvw"), reading("x", 90, 0))
    run.send("rules", rule("end", 90, 0), rule("end", 110, 0))
    found = [(row["machine"], row["rule"]) for row in run.published("alarms")]
    assert sorted(found) == [(machine, name) for machine in "uvw" for name in "ab"]


def test_a_table_that_is_keyed_too_is_two_streams_of_the_plan():
    pipeline, readings, rules = plant()
    known = rules.table(keep="1h")
    readings.join(known.broadcast(), on=OVER).to("alarms")
    readings.join(known.broadcast(), how="semi").to("again")
    rules.window(tumbling("1m")).aggregate(n=count()).to("changes")
    plan = pipeline.plan()
    by_log = {log.topic: [each.name for each in log.streams] for log in plan.logs}
    assert by_log == {
        "plant.by-machine.log": ["readings", "rules"],
        "plant.by-rule.log": ["rules#2"],
    }
    assert [each.is_broadcast for log in plan.logs for each in log.streams] == [False, True, False]
    assert "broadcast to machine" in render_text(plan)


def test_what_decides_on_results_is_in_the_fingerprint():
    def print_of(*, max_rows=5, **options):
        pipeline, readings, rules = plant()
        readings.join(rules.table(keep="1h").broadcast(max_rows=max_rows), **options).to("alarms")
        return pipeline.plan().fingerprint

    assert print_of() == print_of(max_rows=6)
    others = [print_of(on=OVER), print_of(how="left"), print_of(wait="arrival")]
    others += [print_of(allowed_lateness="1s"), print_of(max_pairs=3)]
    assert len({print_of(), *others}) == 6
