"""Ingest with a static table: its rows are there before time moves, and it holds no clock."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.runtime.ingest.in_memory import Service, assert_tiles, outputs
from tests.runtime.ingest.site import (
    CLICKS,
    EXPECTED,
    PLAN,
    USERS,
    built,
    cluster_of,
    loaded_while_it_runs,
)
from tidemark.core.time.segment import NEVER_MS, WATERMARK
from tidemark.plan.placement import placed
from tidemark.plan.program import program_of


@pytest.fixture
def patched(monkeypatch):
    return lambda: cluster_of(monkeypatch)


def answers(cluster, name="named", plan=PLAN):
    """Return the name of each click of an output; none is late or answered twice."""
    found = []
    (operator,) = (each for each in plan.operators if each.name == name)
    for operator_name, output in outputs(cluster, plan, operator.log):
        assert operator_name == name
        assert not any(frame.height for n, frame in output.frames.items() if n != "rows")
        if "rows" in output.frames:
            found += [(r["user"], r["at"], r["name"]) for r in output.frames["rows"].to_dicts()]
    assert len({(user, at) for user, at, _ in found}) == len(found)
    return {(user, at): name for user, at, name in found}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.tuples(st.sampled_from([CLICKS, USERS]), st.integers(1, 9), st.booleans())),
    st.booleans(),
)
def test_no_cut_and_no_crash_changes_the_answers_of_the_first_load(patched, steps, idles):
    cluster = patched()
    service = Service(cluster, PLAN, (CLICKS, USERS))
    for at, count, crashes in steps:
        service.take(at, count)
        if crashes:
            service = Service(cluster, PLAN, (CLICKS, USERS))
        else:
            service.commit()
        cluster.now_ms += 5_000 * idles
        service.tick()
    service.finish()
    assert_tiles(cluster, PLAN.logs[0].topic)
    first = {1: "a", 2: "b", 3: "c"}
    assert answers(cluster) == {(user, at): first.get(user) for user, at in EXPECTED}


def test_later_loads_count_from_their_time_on(patched):
    cluster = patched()
    loaded_while_it_runs(cluster)
    assert answers(cluster) == EXPECTED
    segments = [segment for part in cluster.log(PLAN.logs[0].topic).values() for segment in part]
    marks = [mark for segment in segments for mark in segment.sources if mark.source == str(USERS)]
    assert {mark.watermark_ms for mark in marks} == {NEVER_MS}
    assert {(mark.first_offset > 2, mark.idle) for mark in marks} == {(False, False), (True, True)}
    rows = [segment.streams[USERS.topic] for segment in segments if USERS.topic in segment.streams]
    assert {watermark for frame in rows for watermark in frame[WATERMARK]} == {NEVER_MS}


def test_a_new_log_gets_the_versions_of_all_loads(patched, caplog):
    cluster = patched()
    loaded_while_it_runs(cluster)
    plan = placed(built(other=True), program_of(PLAN))
    assert len(plan.logs) == 2
    Service(cluster, plan, (USERS, CLICKS)).finish()
    found = answers(cluster, "some", plan)
    assert found == {(user, at): name for (user, at), name in EXPECTED.items() if user > 1}
    assert answers(cluster, "named", plan) == EXPECTED
    assert "earlier records are gone" not in caplog.text
