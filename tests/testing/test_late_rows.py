"""Late rows as a stream against slow Python: any cut, crash, silence and number of partitions.

docs/semantics.md, "Late rows as a stream".
"""

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import fewer
from tests.oracles.chain import Result, late, results
from tests.support.random_chains import (
    DAYS,
    HOUR,
    LATE_ACTIONS,
    SECOND,
    WINDOWS,
    build_late,
    happen,
    late_stages,
    raw_rows,
    summing,
)
from tidemark import Pipeline, bounded, count, tumbling
from tidemark.testing import InProcess


def of(run: InProcess, name: str) -> list[Result]:
    rows = run.published(name)
    return sorted(Result(r["key"], r["start"], r["end"], r["n"], r["total"]) for r in rows)


@fewer(3)
@given(
    st.one_of(
        st.tuples(st.just(SECOND), late_stages(WINDOWS, SECOND)),
        st.tuples(st.just(5 * HOUR), late_stages(DAYS, 5 * HOUR)),
    ),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 2),
    st.lists(LATE_ACTIONS, min_size=1, max_size=12),
)
def test_windows_over_late_rows_give_what_the_oracle_does(
    chain, partitions, raw_partitions, actions
):
    unit_ms, chained = chain
    run = InProcess(build_late(chained, partitions, unit_ms), raw_partitions=raw_partitions)
    happen(run, actions, unit_ms)
    rows = raw_rows(run)
    assert not run._topics.get("late.sums.late")
    for number, stage in enumerate(chained):
        assert of(run, f"out{number}") == sorted(results([stage], rows))
        if number == len(chained) - 1:
            after = stage._replace(least=1, key="same")
            assert of(run, "sums") == sorted(results([after, summing(unit_ms)], rows))
        found = late(stage, rows)
        assert len(run._topics.get(f"late.out{number}.late", [])) == len(found)
        rows = [
            row._replace(key=row.key if stage.key == "same" else str(row.value % 3))
            for row in found
        ]


def test_the_timeline_of_the_semantics():
    pipeline = Pipeline("late", 2)
    rows = pipeline.source(
        "rows",
        schema={"key": str, "at": int},
        event_time="at",
        watermark=bounded("0s"),
        idle_after="1h",
    )
    first = rows.key_by("key").window(tumbling("10s")).aggregate(n=count())
    first.to("first")
    first.late.to("late")
    second = first.late.key_by("key").window(tumbling("10s"), allowed_lateness="30s")
    second.aggregate(n=count()).to("second")
    run = InProcess(pipeline)
    for time in (1, 12, 5, 41, 8):
        run.send("rows", {"key": "a", "at": time * SECOND})
    found = [(row["at"], row["own_watermark"][-7:]) for row in run.published("late")]
    assert found == [(5 * SECOND, "12.000Z"), (8 * SECOND, "41.000Z")]
    assert [(row["start"], row["n"]) for row in run.published("first")][:1] == [(0, 1)]
    assert [(row["start"], row["n"]) for row in run.published("second")] == [(0, 1)]
    (again,) = run._topics["late.second.late"]
    assert (again["row"]["at"], again["late_by_ms"]) == (8 * SECOND, 1000)
