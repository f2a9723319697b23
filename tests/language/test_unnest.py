"""``unnest``: the fields of a struct as columns, and with it one row for each rank of ``top_k``."""

import polars as pl
import pytest

from tests.support.mistakes import moves, refused
from tidemark import Pipeline, bounded, col, count, top_k, tumbling
from tidemark.core.rows.schema import INSTANT
from tidemark.testing import InProcess

MINUTE = 60_000


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda s: s.unnest("x"), "unnest: the stream has no column 'x'"),
        (lambda s: s.unnest("at"), "unnest: column 'at' is Int64, not a struct"),
        (lambda s: s.unnest("tags"), "is List(String), not a struct; call explode('tags') before"),
        (
            lambda s: s.with_columns(one=pl.struct("at", "player")).unnest("one"),
            "unnest('one'): the stream has a column 'at' already; rename or drop it with select()",
        ),
    ],
)
def test_a_mistake_is_refused_at_once(build, message):
    with refused(message):
        build(moves())


def test_fields_take_the_place_of_their_struct():
    stream = moves().select("at", pair=pl.struct(a="score", pair="vip"), speed=col("speed"))
    assert stream.unnest("pair").columns == {
        "at": pl.Int64(),
        "a": pl.Int64(),
        "pair": pl.Boolean(),
        "speed": pl.Float64(),
    }


def test_fields_of_a_struct_that_is_null_are_null():
    pipeline = Pipeline("nested")
    rows = pipeline.source(
        "rows", schema={"at": int, "p": {"x": int}}, event_time="at", watermark=bounded("0s")
    )
    rows.unnest("p").to("flat")
    with InProcess(pipeline) as run:
        run.send("rows", {"at": 1, "p": {"x": 5}}, {"at": 2, "p": None}, {"at": 3})
        assert [row["x"] for row in run.published("flat")] == [5, None, None]


def test_each_rank_of_a_list_is_a_row_to_publish_and_to_work_on():
    """The example of docs/semantics.md, "Aggregates"."""
    pipeline = Pipeline("ranks", partitions=2)
    rows = pipeline.source(
        "rows", schema={"at": int, "user": str}, event_time="at", watermark=bounded("0s")
    )
    counts = rows.key_by("user").window(tumbling("1m")).aggregate(n=count())
    hourly = counts.key_by().window(tumbling("1h"))
    ranked = hourly.aggregate(top=top_k("user", 2, by="n", ranks=True)).explode("top")
    ranked.unnest("top").to("top")
    leaders = ranked.unnest("top").filter(col("rank") == 1).key_by("value")
    leaders.window(tumbling("1d")).aggregate(hours=count()).to("leaders")
    assert ranked.unnest("top").columns == {
        "start": INSTANT,
        "end": INSTANT,
        "rank": pl.Int64(),
        "value": pl.String(),
        "by": pl.Int64(),
    }
    with InProcess(pipeline) as run:
        for hour, users in enumerate(("annbobann", "bob", "annann")):
            names = [users[at : at + 3] for at in range(0, len(users), 3)]
            run.send("rows", *({"at": hour * 60 * MINUTE, "user": name} for name in names))
        run.idle("rows", "30d")
        found = [
            (
                row["start"][11:13],
                row["rank"],
                row["value"],
                row["by"],
                int(row["_id"].rpartition("-")[2]),
            )
            for row in run.published("top")
        ]
        assert found == [
            ("00", 1, "ann", 2, 0),
            ("00", 2, "bob", 1, 1),
            ("01", 1, "bob", 1, 0),
            ("02", 1, "ann", 2, 0),
        ]
        run.expect_published("leaders", {"value": "ann", "hours": 2}, {"value": "bob", "hours": 1})
