"""Random chains against an oracle: any cut, crash, silence and number of partitions.

docs/semantics.md, "Chains".  No row of a stage is late for the operator after it.
"""

from hypothesis import given
from hypothesis import strategies as st

from tests.examples import fewer
from tests.oracles.chain import Result, results
from tests.support.random_chains import (
    ACTIONS,
    DAYS,
    HOUR,
    ROWS,
    SECOND,
    WINDOWS,
    build,
    chains,
    happen,
    normal,
    raw_rows,
)
from tidemark.local.run import Cuts, LocalRun
from tidemark.testing import InProcess


@given(
    st.one_of(
        st.tuples(st.just(SECOND), chains(WINDOWS, SECOND)),
        st.tuples(st.just(5 * HOUR), chains(DAYS, 5 * HOUR)),
    ),
    st.sampled_from([1, 2, 4]),
    st.integers(1, 2),
    st.lists(ACTIONS, min_size=1, max_size=12),
)
def test_a_chain_gives_what_the_oracle_does(chain, partitions, raw_partitions, actions):
    unit_ms, stages = chain[0], normal(chain[1])
    run = InProcess(build(stages, partitions, unit_ms), raw_partitions=raw_partitions)
    happen(run, actions, unit_ms)
    first, rows = run.plan.operators[0], raw_rows(run)
    published = run.published("out")
    found = [Result(p.get("key"), p["start"], p["end"], p["n"], p["total"]) for p in published]
    assert sorted(found, key=repr) == sorted(results(stages, rows), key=repr)
    for name, values in run._topics.items():
        assert not values or not name.endswith(".late") or name == f"chain.{first.name}.late"


@fewer(2)
@given(chains(WINDOWS, SECOND), st.lists(ROWS, min_size=1, max_size=60), st.integers(0, 99))
def test_neither_cuts_nor_partitions_change_what_a_chain_gives(stages, rows, seed):
    now, lines = 0, []
    for key, step, value in rows:
        now += step
        lines.append(b'{"key":"%s","at":%d,"value":%d}' % (key.encode(), now * SECOND, value))
    wanted = None
    for partitions, cuts in ((1, None), (2, seed), (4, seed + 1)):
        run = LocalRun(build(normal(stages), partitions, SECOND).plan(), Cuts(cuts))
        list(run.run({"rows": lines}))
        names = ("key", "start", "end", "n", "total", "last")
        last_rows = run.published["out"].last("panes")
        found = last_rows.select(name for name in names if name in last_rows.columns).rows()
        wanted = found if wanted is None else wanted
        assert found == wanted
        for each in run.plan.operators[1:]:
            assert run.published[each.name].tally.late == 0
