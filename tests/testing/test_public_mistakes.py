"""What goes wrong with chains elsewhere, by public reports, and what happens here.

docs/semantics.md, "Chains" and "Operators as sources".
"""

import pytest

from tidemark import Pipeline, bounded, col, count, count_window, every, on_close, tumbling
from tidemark import sum as total
from tidemark.testing import InProcess

TENS = tumbling("10s")
ROWS = [{"key": key, "at": at, "v": 1} for at in range(0, 65_000, 1_000) for key in ("a", "b")]
END = {"key": "end", "at": 1_000_000, "v": 0}


def rows_of(pipeline):
    return pipeline.source(
        "rows",
        schema={"key": str, "at": int, "v": int},
        event_time="at",
        watermark=bounded("2s"),
    )


def sent(pipeline, rows, at_once):
    run = InProcess(pipeline)
    for begin in range(0, len(rows), at_once):
        run.send("rows", *rows[begin : begin + at_once])
    run.send("rows", END)
    return run


@pytest.mark.parametrize("at_once", [1, 7, len(ROWS)])
def test_rows_of_a_stage_are_not_dropped_by_the_watermark_that_made_them(at_once):
    """SPARK-40925: rows of the first operator are older than the watermark that closes its windows.

    With one watermark for all operators, the second one drops them as late.
    """
    pipeline = Pipeline("sparks", 2)
    counts = rows_of(pipeline).key_by("key").window(TENS).aggregate(n=count())
    counts.key_by("key").window(TENS).aggregate(n=total("n"), rows=count()).to("sums")
    run = sent(pipeline, ROWS, at_once)
    assert run.late("sums") == []
    found = {(each["key"], each["start"]): (each["n"], each["rows"]) for each in run.panes("sums")}
    whole = {(key, start): (10, 1) for key in "ab" for start in range(0, 60_000, 10_000)}
    assert found == {**whole, ("a", 60_000): (5, 1), ("b", 60_000): (5, 1)}


@pytest.mark.parametrize("at_once", [1, 7, len(ROWS)])
def test_a_second_aggregate_waits_for_all_rows_of_the_first(at_once):
    """SPARK-28074: with one watermark, the later windows close before the earlier ones are counted.

    The result then depends on how rows were cut into batches.
    """
    pipeline = Pipeline("chained", 2)
    counts = (
        rows_of(pipeline).key_by("key").window(TENS, allowed_lateness="3s").aggregate(n=count())
    )
    counts.key_by().window(tumbling("30s")).aggregate(n=total("n"), rows=count()).to("all")
    found = {
        each["start"]: (each["n"], each["rows"])
        for each in sent(pipeline, ROWS, at_once).panes("all")
    }
    assert found == {0: (60, 6), 30_000: (60, 6), 60_000: (10, 2)}


def test_corrections_of_a_window_are_not_added_up():
    """A table of updates that is read as a stream: each update of a count is counted again."""
    pipeline = Pipeline("updates", 1)
    windows = (
        rows_of(pipeline)
        .key_by("key")
        .window(TENS, allowed_lateness="10s", trigger=on_close(early=every(rows=2)))
    )
    counts = windows.aggregate(n=count())
    counts.to("counts")
    counts.key_by("key").window(tumbling("1m")).aggregate(n=total("n"), rows=count()).to("sums")
    late = [{"key": "a", "at": 5_000, "v": 1}]
    run = sent(pipeline, [*ROWS[:30], *late, *ROWS[30:]], 1)
    panes = [each for each in run.published("counts") if (each["key"], each["start"]) == ("a", 0)]
    assert [each["n"] for each in panes] == [2, 4, 6, 8, 10, 10, 11]
    (first,) = (each for each in run.panes("sums") if (each["key"], each["start"]) == ("a", 0))
    assert (first["n"], first["rows"]) == (61, 6)


def test_running_aggregates_and_counts_of_rows_read_windows_that_were_corrected():
    """FLINK-19059: OVER windows refuse the results of an aggregate, because they may be withdrawn.

    Here they read final results, which never are.  Nexmark's q6 has such a chain.
    """
    pipeline = Pipeline("over", 1)
    counts = (
        rows_of(pipeline).key_by("key").window(TENS, allowed_lateness="10s").aggregate(n=count())
    )
    by_key = counts.filter(col("key") == "a").key_by("key")
    by_key.aggregate(n=total("n")).to("running")
    by_key.window(count_window(3)).aggregate(n=total("n")).to("threes")
    run = sent(pipeline, [*ROWS[:30], {"key": "a", "at": 5_000, "v": 1}, *ROWS[30:]], 1)
    assert [each["n"] for each in run.published("running")] == [11, 21, 31, 41, 51, 61, 66]
    assert [each["n"] for each in run.published("threes")] == [31, 30]
