"""Horizons: how long after a raw row the last result of a path of operators may still be due."""

from dataclasses import replace

from tests.kafka.pipelines import toy
from tidemark.core.operators.ports import Input
from tidemark.core.time.segment import operator_source
from tidemark.plan.physical import OperatorPlan, Plan


def fed_by(upstream: OperatorPlan, name: str, horizon_ms: int) -> OperatorPlan:
    """Return an operator whose only source is another one."""
    port = upstream.results.port
    side = Input(
        (upstream.name,), port.key, port.columns, frozenset({operator_source(upstream.name)})
    )
    operator = replace(upstream.operator, name=name, inputs=(side,), horizon_ms=horizon_ms)
    return replace(upstream, operator=operator)


def path(*horizons_ms: int) -> Plan:
    """Return a plan of the toy and of operators that feed each other, 10 s of its own first."""
    plan = toy.first("toy").plan()
    operators = list(plan.operators)
    for number, horizon_ms in enumerate(horizons_ms):
        operators.append(fed_by(operators[-1], f"stage{number}", horizon_ms))
    return replace(plan, operators=tuple(operators))


def test_the_horizon_of_one_operator_is_its_own_after_the_delay_of_its_sources():
    #   watermark 2 s behind + windows of 10 s
    assert path().horizon_ms == 2_000 + 10_000


def test_horizons_add_along_a_path_since_a_result_is_a_row_of_the_next_operator():
    assert path(20_000).horizon_ms == 2_000 + 10_000 + 20_000
    assert path(20_000, 5_000).horizon_ms == 2_000 + 10_000 + 20_000 + 5_000


def test_of_several_paths_the_longest_counts():
    plan = path(20_000)
    beside = fed_by(plan.operators[0], "beside", 3_000)
    assert replace(plan, operators=(*plan.operators, beside)).horizon_ms == 32_000
