"""Clicks with the names of their users, from a static table: a pipeline, and records for it."""

import json
from collections import Counter
from types import SimpleNamespace

import pytest

from tests.runtime.ingest.in_memory import Cluster, Service, record
from tidemark import Pipeline, bounded, col
from tidemark.partition import Partition
from tidemark.runtime.ingest import task
from tidemark.statics.versions import StaticRows, StaticVersions

CLICKS, USERS = Partition("clicks", 0), Partition("site.users.static", 0)


def built(*, other=False):
    """Return clicks with users; ``other``: also some clicks, which begins a new log."""
    pipeline = Pipeline("site", partitions=2)
    clicks = pipeline.source(
        "clicks", schema={"at": int, "user": int}, event_time="at", watermark=bounded("0s")
    )
    users = pipeline.static("users", "u.parquet", key="user", schema={"user": int, "name": str})
    clicks.key_by("user").join(users, how="left").to("named")
    if other:
        clicks.filter(col("user") > 1).key_by("user").join(users, how="left").to("some")
    return pipeline.plan()


PLAN = built()


def loads(*tables):
    """Return the versions of the loads of a table at 0, 5,000, 10,000 and so on."""
    source = next(each for each in PLAN.sources if each.static is not None)
    versions, written = StaticVersions(source), []
    for number, table in enumerate(tables):
        rows = [json.dumps({"user": user, "name": name}).encode() for user, name in table.items()]
        read = StaticRows(rows, range(len(rows)), "u.parquet")
        written.append(versions.load(read, 5_000 * number))
    return written


LOADS = loads({1: "a", 2: "b", 3: "c"}, {1: "a", 2: "B"}, {1: "A", 2: "B", 3: "C"})
CLICKED = [record(at, user=user) for at in range(0, 15_000, 1_000) for user in (1, 2, 3)]
LAST = record(20_000, user=0)


def name_at(user, at):
    """Return the name that a user has at a time."""
    if user == 2:
        return "b" if at < 5_000 else "B"
    if user == 1:
        return "a" if at < 10_000 else "A"
    return "c" if at < 5_000 else None if at < 10_000 else "C"


EXPECTED = {
    (user, at): name_at(user, at) for at in range(0, 15_000, 1_000) for user in (1, 2, 3)
} | {(0, 20_000): None}


def cluster_of(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    """Return a cluster with clicks and the first load; others write the loads."""
    loads = SimpleNamespace(
        begin=lambda *_: None, drop=lambda *_: None, poll=lambda *_: None, failures=Counter()
    )
    monkeypatch.setattr(task, "require_files", lambda _sources: None)
    monkeypatch.setattr(task, "StaticTables", lambda *_: loads)
    cluster = Cluster({CLICKS: [*CLICKED, LAST], USERS: list(LOADS[0])})
    cluster.patch(monkeypatch)
    return cluster


def loaded_while_it_runs(cluster: Cluster) -> None:
    """Run ingest over loads that come before the clock reaches their time."""
    service = Service(cluster, PLAN, (CLICKS, USERS))
    service.take(USERS, 9)
    service.commit()
    for versions in LOADS[1:]:
        service.take(CLICKS, 12)
        service.commit()
        cluster.raw[USERS] += versions
        service.take(USERS, 9)
        service.commit()
    service.finish()
