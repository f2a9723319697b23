"""Topics of a pattern that come and go while ingest runs, and crashes between any two commits."""

import time

import msgspec
import pytest

from tests.patience import PATIENCE_S
from tests.runtime.ingest.in_memory import Cluster, Service, record
from tidemark import Pipeline, bounded, col, count, tumbling
from tidemark.core.operators.task import OperatorTask
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.plan.program import SourceProgram

EU, US = Partition("in.eu", 0), Partition("in.us", 0)
LOG = "p.by-topic.log"


def built() -> Plan:
    pipeline = Pipeline("p", partitions=1)
    orders = pipeline.source(
        topics=r"in\..*",
        schema={"at": int},
        event_time="at",
        watermark=bounded("1s"),
        idle_after="1h",
    )
    by_topic = orders.with_columns(topic=col("_topic")).key_by("topic")
    by_topic.window(tumbling("10s")).aggregate(n=count()).to("out")
    return pipeline.plan()


@pytest.fixture
def cluster(monkeypatch):
    cluster = Cluster({EU: [record(1_000), record(13_000)]})
    cluster.patch(monkeypatch)
    return cluster


def look(service: Service) -> None:
    """Turn the loop until the topics were looked at anew."""
    before = service.task._raw._looked_ms
    deadline_s = time.monotonic() + PATIENCE_S
    while service.task._raw._looked_ms == before or service.task._raw._looking is not None:
        assert time.monotonic() < deadline_s
        service.tick()


def recorded(cluster: Cluster) -> dict[str, SourceProgram]:
    """Return the topics that have a record of their own."""
    return {
        (key or b"").removeprefix(b"ingest:").decode(): msgspec.json.decode(
            value, type=SourceProgram
        )
        for key, value in cluster.written[Partition("p.generations", 0)]
    }


def clock(cluster: Cluster, plan: Plan) -> OperatorTask:
    """Return the operator after all segments."""
    task = OperatorTask(plan.operators[0].operator)
    for segment in cluster.log(LOG).get(0, []):
        task.step(segment)
    return task


def test_a_topic_that_comes_is_recorded_before_any_clock_waits_for_it(cluster):
    plan = built()
    service = Service(cluster, plan, [EU])
    service.take(EU, 1)
    service.commit()
    cluster.raw[US] = [record(2_000)]
    look(service)
    assert service.followed == ["in.eu", "in.us"]
    assert recorded(cluster) == {}
    service.take(EU, 1)
    service.commit()
    assert not recorded(cluster)["in.us"].gone
    assert cluster.log(LOG)[0][-1].partitions == {"in.eu": 1, "in.us": 1}
    assert clock(cluster, plan).clocks.holder() == "in.us/0"


def test_nothing_of_a_topic_is_known_after_a_crash_before_the_commit(cluster):
    plan = built()
    service = Service(cluster, plan, [EU])
    cluster.raw[US] = [record(2_000)]
    look(service)
    service.take(EU, 2)  # and a crash
    again = Service(cluster, plan, [EU, US])
    again.finish()
    assert clock(cluster, plan).clocks.clock_ms == 1_000


@pytest.mark.parametrize("crashes", [False, True])
def test_no_clock_waits_for_a_topic_that_is_gone(cluster, crashes):
    plan = built()
    cluster.raw[US] = [record(2_000), record(3_000)]
    service = Service(cluster, plan, [EU, US])
    service.take(US, 1)
    service.take(EU, 1)
    service.commit()
    assert clock(cluster, plan).clocks.clock_ms == 0
    service.take(US, 1)  # is in the next commit, unless the process dies before
    del cluster.raw[US]
    if crashes:
        service = Service(cluster, plan, [EU])
    else:
        look(service)
        assert service.followed == ["in.eu"]
    service.take(EU, 1)
    service.commit()
    assert recorded(cluster)["in.us"].gone
    task = clock(cluster, plan)
    assert task.clocks.clock_ms == 12_000
    assert task.clocks.sources["in.us/0"].idle
    assert task.clocks.sources["in.us/0"].next_offset == (1 if crashes else 2)
    assert cluster.committed[US].offset == 1  # there is no topic to commit for


def test_a_topic_that_was_gone_and_is_there_again_is_recorded_as_it_was(cluster):
    plan = built()
    first = SourceProgram({"at": "Int64"}, {}, topic_id="first", gone=True)
    service = Service(cluster, plan, [EU], known={"in.us": first})
    cluster.raw[US] = [record(2_000)]
    look(service)
    service.take(EU, 1)
    service.commit()
    assert recorded(cluster) == {"in.us": msgspec.structs.replace(first, gone=False)}
