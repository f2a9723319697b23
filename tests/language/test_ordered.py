"""``distinct_by`` and ``scan`` as users write them: rows in order of event time, as streams."""

import polars as pl
import pytest

from tests.support.mistakes import moves, refused
from tidemark import (
    Pipeline,
    bounded,
    col,
    count,
    cum_sum,
    diff,
    last,
    prev,
    same,
    tumbling,
)
from tidemark import sum as total
from tidemark.commands.schemas import result_schemas
from tidemark.language.stream import Stream
from tidemark.local.run import LocalRun
from tidemark.local.view import summary
from tidemark.plan.explain import render_mermaid, render_text
from tidemark.testing import InProcess

MINUTE = 60_000


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: s.distinct_by(within="1h"), "distinct_by(): no columns; name those"),
        (lambda s: s.distinct_by("score", within="0s"), "(within): '0s' is not longer than 0"),
        (lambda s: s.distinct_by("nobody", within="1h"), "nobody"),
        (
            lambda s: s.key_by("player").distinct_by("x", within="1h"),
            "('x'): the stream has",
        ),
        (lambda s: s.key_by("player").distinct_by(col("at"), within="1h"), "is not a column name"),
        (
            lambda s: s.with_columns(f=pl.lit(1.5)).key_by("player").distinct_by("f", within="1h"),
            "distinct_by('f'): column 'f' is Float64, which is not a type for keys",
        ),
        (lambda s: s.key_by("player").scan(), "scan(): no values; pass at least one"),
        (
            lambda s: s.key_by("player").scan(n=count()),
            "scan(n): count() is not prev('column'), diff('column') or cum_sum('column')",
        ),
        (
            lambda s: s.key_by("player").scan(at=prev("at")),
            "scan(at): the stream has this column; choose another name",
        ),
        (
            lambda s: s.key_by("player").scan(d=diff("player")),
            '"player" is String, but diff',
        ),
        (lambda s: s.key_by("player").scan(d=cum_sum("player")), "cum_sum needs numbers or Boole"),
        (lambda s: s.key_by("player").scan(d=prev("x")), 'scan(d=prev("x"))'),
        (lambda s: s.key_by("player").scan(_offset=prev("at")), "'_offset' is a metadata column"),
        (lambda s: s.key_by("player").scan(_sub_row=prev("at")), "clashes with a field of every"),
        (
            lambda s: s.key_by("player").scan(p=prev("at"), max_silence="-1s"),
            "scan(max_silence): '-1s' is not longer than 0",
        ),
        (
            lambda s: s.distinct_by("player", within="1h").key_by("player").window(same()),
            "rows of distinct_by(), scan() or join() have no window; use it on",
        ),
        (lambda s: s.distinct_by("player", within="1h").to("a", format="xml"), "format 'xml'"),
    ],
)
def test_a_mistake_is_refused_at_once(build, message):
    with refused(message):
        build(moves())


def test_a_value_names_a_column():
    with refused("diff(...) takes the name of a column, not Expr"):
        diff(col("x"))  # type: ignore[arg-type]


def timed(name: str, delay: str, **schema: type) -> tuple[Pipeline, Stream]:
    pipeline = Pipeline(name, partitions=2)
    rows = pipeline.source(
        "rows",
        schema={"at": int, "id": str, **schema},
        event_time="at",
        watermark=bounded(delay),
    )
    return pipeline, rows


def test_distinct_rows_count_from_the_row_kept():
    """The timeline of docs/semantics.md, "Distinct rows"."""
    pipeline, rows = timed("once", "0s")
    rows.distinct_by("id", within="1h").select("id", minute=col("at") // MINUTE).to("kept")
    run = InProcess(pipeline)
    run.send("rows", *({"at": minute * MINUTE, "id": "a"} for minute in (0, 50, 100, 159)))
    assert [row["minute"] for row in run.published("kept")] == [0, 100]
    run.send("rows", {"at": 160 * MINUTE, "id": "a"}, {"at": 161 * MINUTE, "id": "b"})
    assert [row["minute"] for row in run.published("kept")] == [0, 100, 160]


def test_values_of_the_rows_before():
    """The timeline of docs/semantics.md, "Values of the rows before"."""
    pipeline, rows = timed("scans", "5s", v=int)
    rows.key_by("id").scan(
        before=prev("v"), delta=diff("v"), total=cum_sum("v"), max_silence="10s"
    ).to("scanned")
    run = InProcess(pipeline)
    drawn = ((4, 1), (1, 5), (12, None), (13, 2), (30, 7))
    run.send("rows", *({"at": at * 1000, "id": "a", "v": v} for at, v in drawn))
    run.idle("rows", "1h")
    found = [
        (row["at"] // 1000, row["before"], row["delta"], row["total"])
        for row in run.published("scanned")
    ]
    assert found == [
        (1, None, None, 5),
        (4, 5, -4, 6),
        (12, 1, None, None),
        (13, None, None, 8),
        (30, None, None, 7),
    ]


def test_late_rows_go_to_the_late_topic():
    pipeline, rows = timed("late", "1s")
    rows.distinct_by("id", within="1h").to("kept")
    run = InProcess(pipeline)
    run.send("rows", *({"at": at, "id": "a"} for at in (5_000, 3_999, 4_000)))
    (late,) = run.late("kept")
    assert (late["event_time_ms"], late["late_by_ms"]) == (3_999, 0)
    assert (late["start"], late["end"]) == (3_999, 4_000)


def test_values_of_every_type_and_bytes_reach_the_next_operators():
    pipeline, rows = timed("types", "0s", body=bytes, x=float, tags=list[str])
    scanned = rows.key_by("id").scan(
        body_before=prev("body"), tags_before=prev("tags"), dx=diff("x"), xs=cum_sum("x")
    )
    hexed = scanned.select("id", "dx", "xs", "tags_before", b=col("body_before").bin.encode("hex"))
    hexed.to("hexed")
    scanned.to("plain")
    run = InProcess(pipeline)
    for at, x in enumerate((0.5, 1e300, -1e300)):
        run.send("rows", {"at": at, "id": "a", "body": "AQI=", "x": x, "tags": [str(at)]})
    run.idle("rows", "1h")
    assert [row["b"] for row in run.published("hexed")] == [None, "0102", "0102"]
    assert [row["tags_before"] for row in run.published("hexed")] == [None, ["0"], ["1"]]
    assert [row["xs"] for row in run.published("hexed")] == [0.5, 1e300, 0.5]
    assert [row["dx"] for row in run.published("hexed")] == [None, 1e300, -2e300]
    assert [row["body_before"] for row in run.published("plain")] == [None, "AQI=", "AQI="]


def test_times_have_differences_in_ms_and_wide_integers_are_whole():
    pipeline, rows = timed("wide", "0s", n=int)
    timed_rows = rows.with_columns(when=pl.from_epoch("at", "ms").dt.replace_time_zone("UTC"))
    scanned = timed_rows.key_by("id").scan(gap=diff("when"), dn=diff("n"))
    scanned.to("plain")
    scanned.filter(col("gap") > 0).to("next")
    run = InProcess(pipeline)
    run.send("rows", {"at": 1_000, "id": "a", "n": 2**62}, {"at": 2_500, "id": "a", "n": -(2**62)})
    run.send("rows", {"at": 3_000, "id": "a", "n": 2**62 + 5})
    run.idle("rows", "1h")
    assert [row["gap"] for row in run.published("plain")] == [None, 1_500, 500]
    assert [row["dn"] for row in run.published("plain")] == [None, -(2**63), 2**63 + 5]
    assert [row["dn"] for row in run.published("next")] == [-(2**63)]
    (letter,) = run.dead_letters()
    assert letter["reason"] == f"scan(dn): {2**63 + 5} does not fit in Int64"


def test_rows_of_one_key_of_all_rows_are_a_stream_of_their_own():
    pipeline, rows = timed("one", "0s", n=int)
    rows.key_by().scan(total=cum_sum("n")).to("totals")
    run = InProcess(pipeline)
    run.send("rows", *({"at": at, "id": str(at), "n": 2} for at in range(4)))
    assert [row["total"] for row in run.published("totals")] == [2, 4, 6]
    assert "@all" not in run.published("totals")[0]


def test_chains_go_through_rows_in_order_and_a_plan_shows_them():
    pipeline, rows = timed("chain", "0s", n=int)
    once = rows.distinct_by("id", within="10s")
    counts = once.key_by("n").window(tumbling("10s")).aggregate(c=count(), last=last("id"))
    counts.key_by("n").scan(more=diff("c"), all=cum_sum("c")).to("grown")
    counts.key_by("n").distinct_by(within="1m").key_by().window(tumbling("1m")).aggregate(
        t=total("c")
    ).to("firsts")
    plan = pipeline.plan()
    text = render_text(plan)
    for line in (
        'distinct_by("id", within="10s")',
        'scan(more=diff("c"), all=cum_sum("c"))  <-',
        "results of id.distinct-10s.id",
        "results of n.tumbling-10s.c-last",
    ):
        assert line in text, text
    assert "distinct_by" in render_mermaid(plan)
    run = InProcess(pipeline)
    for at, identity in ((0, "a"), (1, "a"), (2, "b"), (12, "c"), (13, "d"), (14, "e"), (61, "z")):
        run.send("rows", {"at": at * 1_000, "id": identity, "n": 1})
        run.crash("windowing")
        run.restart("windowing")
    run.idle("rows", "1h")
    found = [(row["c"], row["more"], row["all"]) for row in run.published("grown")]
    assert found == [(2, None, 2), (3, 1, 5), (1, -2, 6)]
    assert [row["t"] for row in run.published("firsts")] == [2, 1]


def test_the_schema_of_results_has_the_values():
    pipeline, rows = timed("schemas", "0s", n=int)
    rows.key_by("id").scan(d=diff("n")).to("scanned", format="avro")
    schema = result_schemas(pipeline.plan())["schemas.scanned"]
    assert [field["name"] for field in schema["fields"]] == [
        *("at", "id", "n", "d"),
        *("_topic", "_partition", "_offset", "_sub_row", "_event_time_ms"),
    ]
    run = InProcess(pipeline)
    run.send("rows", *({"at": at, "id": "a", "n": at * at} for at in range(4)))
    assert [row["d"] for row in run.published("scanned")] == [None, 1, 3]


def test_state_fits_only_the_same_rule():
    signatures = []
    for within in ("1h", "2h"):
        pipeline, rows = timed("signed", "0s")
        rows.distinct_by("id", within=within).to("kept")
        signatures.append(pipeline.plan().operators[0].state_signature)
    assert signatures[0]["rule"] == 'distinct_by("id", within="1h")'
    assert signatures[0] != signatures[1]


def test_a_try_counts_duplicates():
    pipeline, rows = timed("tried", "0s")
    rows.distinct_by("id", within="1h").to("kept")
    run = LocalRun(pipeline.plan())
    list(run.run({"rows": [b'{"at":%d,"id":"a"}' % at for at in range(3)]}))
    assert [*summary(run)][-1] == "kept: 3 rows = 3 accepted + 0 late; duplicates: 2"
