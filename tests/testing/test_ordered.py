"""Rows in order of event time in chains, against slow Python: any cut, crash and partitions."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import fewer
from tidemark import Pipeline, bounded, col, count, cum_sum, prev, tumbling
from tidemark import sum as total
from tidemark.testing import InProcess

SECOND = 1000
WITHIN = 4

ROWS = st.tuples(st.sampled_from("abc"), st.integers(-2, 4), st.integers(0, 3))
ACTIONS = st.lists(ROWS, min_size=1, max_size=8) | st.just("crash")


def build(partitions: int) -> Pipeline:
    """Distinct rows feed counts and a scan; the scan feeds another row of windows."""
    pipeline = Pipeline("ordered", partitions)
    rows = pipeline.source(
        "rows",
        schema={"key": str, "value": int, "at": int},
        event_time="at",
        watermark=bounded("3s"),
    )
    once = rows.key_by("key").distinct_by("value", within=f"{WITHIN}s")
    once.to("once")
    once.key_by("key").window(tumbling("5s")).aggregate(n=count()).to("counts")
    scanned = once.key_by("key").scan(before=prev("value"), total=cum_sum("value"))
    scanned.to("scanned")
    by_value = scanned.filter(col("total") > 1).key_by("value").window(tumbling("5s"))
    by_value.aggregate(totals=total("total")).to("totals")
    return pipeline


def kept(rows: list[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    last: dict[tuple[str, int], int] = {}
    found = []
    for key, at, value in rows:
        if at >= last.get((key, value), -WITHIN) + WITHIN:
            last[key, value] = at
            found.append((key, at, value))
    return found


@fewer(2)
@given(st.sampled_from([1, 2, 4]), st.lists(ACTIONS, min_size=1, max_size=10))
def test_chains_of_rows_in_order_give_what_slow_python_does(partitions, actions):
    run = InProcess(build(partitions), raw_partitions=1)
    now, highest, accepted = 10, None, []
    for action in actions:
        if action == "crash":
            run.crash("windowing")
            run.restart("windowing")
            continue
        records = []
        for key, step, value in action:
            now = max(0, now + step)
            records.append({"key": key, "at": now * SECOND, "value": value})
            if highest is None or now >= highest - 3:
                accepted.append((key, now, value))
            highest = now if highest is None else max(highest, now)
        run.send("rows", *records)
    run.idle("rows", "1d")
    rows = kept(sorted(accepted, key=lambda row: row[1]))

    def shown(name: str, *columns: str) -> list[tuple[Any, ...]]:
        return sorted(tuple(row[each] for each in columns) for row in run.published(name))

    assert shown("once", "key", "at", "value") == sorted((k, at * SECOND, v) for k, at, v in rows)
    counts: dict[tuple[str, int], int] = {}
    totals: dict[tuple[int, int], int] = {}
    scanned, last, sums = [], dict[str, int](), dict[str, int]()
    # Rows of a key that have the same time are distinct by value; a hash orders them.
    order = [(row["key"], row["at"] // SECOND, row["value"]) for row in run.published("scanned")]
    assert sorted(order) == sorted(rows)
    for key in "abc":
        mine = [row for row in order if row[0] == key]
        assert [at for _, at, _ in mine] == sorted(at for _, at, _ in mine)
        for _, at, value in mine:
            start = at // 5 * 5 * SECOND
            counts[key, start] = counts.get((key, start), 0) + 1
            sums[key] = sums.get(key, 0) + value
            scanned.append((key, at * SECOND, value, last.get(key), sums[key]))
            last[key] = value
            if sums[key] > 1:
                totals[value, start] = totals.get((value, start), 0) + sums[key]
    found = [
        tuple(row[each] for each in ("key", "at", "value", "before", "total"))
        for row in run.published("scanned")
    ]
    assert sorted(found, key=repr) == sorted(scanned, key=repr)
    assert shown("counts", "key", "start", "n") == sorted((*k, n) for k, n in counts.items())
    assert shown("totals", "value", "start", "totals") == sorted(
        (*window, n) for window, n in totals.items()
    )
    for name, values in run._topics.items():
        of_stage = name.endswith(".late") and not name.startswith("ordered.once")
        assert not of_stage or not values or name == f"ordered.{run.plan.operators[1].name}.late"
