import random
from collections import Counter

from tests.chaos.joining import KINDS
from tests.chaos.pipelines import build
from tests.chaos.records import draw_records
from tests.chaos.schedule import BROKER, SERVICES, draw_scenario

SEEDS = range(1, 61)


def test_a_seed_always_gives_the_same_run():
    for seed in SEEDS:
        assert draw_scenario(seed).description() == draw_scenario(seed).description()
    assert len({draw_scenario(seed).description() for seed in SEEDS}) == len(SEEDS)


def test_a_seed_always_gives_the_same_records():
    scenario = draw_scenario(7)
    once, again = (draw_records(random.Random(7), 500, scenario.fed()) for _ in range(2))
    assert once == again
    assert {record.fate for record in once} == {"passed", "filtered", "dead", "blank"}


def test_every_run_needs_every_service():
    with_join = with_pattern = 0
    for seed in range(1, 11):
        scenario = draw_scenario(seed)
        plan = build("any", **scenario.options).plan()
        assert plan.services() == tuple(scenario.replicas)
        assert set(plan.services()) - {"joins", "patterns"} == set(SERVICES)
        with_join += "joins" in plan.services()
        with_pattern += "patterns" in plan.services()
    assert 1 < with_join < 6
    assert 1 < with_pattern < 6
    kinds = {join.bounds.kind for seed in SEEDS for join in draw_scenario(seed).options["joins"]}
    assert kinds == {*KINDS}


def test_fifty_runs_have_every_kind_of_fault_and_some_have_none():
    scenarios = [draw_scenario(seed) for seed in range(1, 51)]
    kinds = Counter(fault.kind for scenario in scenarios for fault in scenario.faults)
    assert set(kinds) == {
        "kill", "kill all", "stop", "freeze", "long freeze", "scale in", "scale out", "twin",
        "broker stop", "broker kill", "broker freeze", "store full", "store denied",
        "store damaged",
    }  # fmt: skip
    assert sum(not scenario.faults for scenario in scenarios) == 5
    minute = [f for s in scenarios for f in s.faults if f.service == BROKER and f.for_s == 60.0]
    assert len(minute) == 5


def test_an_empty_partition_gets_no_record():
    scenario = next(s for s in map(draw_scenario, SEEDS) if s.empty is not None)
    assert scenario.empty not in scenario.fed()["moves"]
