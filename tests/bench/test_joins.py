"""The joins that run beside Flink: every row is the row of SQL."""

import pytest

from bench.joins.queries import JOINS, events
from bench.nexmark.arrival import values
from bench.nexmark.in_process import run
from bench.nexmark.reference import Reference


@pytest.mark.parametrize("name", JOINS)
def test_every_row_is_the_row_of_sql(name, tmp_path):
    made = events(20_000, 1, seed=1)

    ran = run(name, JOINS[name], {kind: values(frame) for kind, frame in made.items()}, seed=1)

    reference = Reference(made, tmp_path)
    found = reference.compare(JOINS[name].sql, JOINS[name].results, ran.results)
    assert found.is_equal, found.examples
    assert found.rows > 150
    assert ran.late == 0
    one_less = reference.compare(JOINS[name].sql, JOINS[name].results, ran.results[1:])
    assert one_less.missing == 1
