"""Logs in an archive, and replays over archive and topic as one history."""

import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from tests.kafka.support.stack import Stack, move, wait_until
from tests.spark.support.live import caught_up
from tidemark.commands.replay_view import diff_lines
from tidemark.errors import StateError
from tidemark.runtime.archive.archive import Archive, ArchiveFile, covered
from tidemark.spark.read.ranges import resolve
from tidemark.spark.replay.jobs import diff

MINUTE_MS = 60_000


@pytest.fixture(scope="module")
def archived(broker, tmp_path_factory) -> Iterator[tuple[Stack, str]]:
    """A pipeline whose archive service was killed again and again, and the archive's place."""
    place = str(tmp_path_factory.mktemp("archive"))
    settings = {"TIDEMARK_ARCHIVE": place, "TIDEMARK_ARCHIVE_INTERVAL_MS": "150"}
    with Stack(broker, "archived", 2) as stack:
        archive, log = Archive(place), stack.plan.logs[0].topic
        stack.start()
        stack.start("archive", **settings)
        for n in range(24):
            at = n * MINUTE_MS // 3
            late = at - 3 * MINUTE_MS
            stack.produce((p, None, move(f"p{p}", t)) for p in (0, 1) for t in (at, late))
            time.sleep(0.2)
            if n % 8 == 7:
                _await_files(archive, log, n // 8 + 1)
                stack.kill("archive")
                stack.start("archive", **settings)
        caught_up(stack)
        ends = resolve(stack.admin, stack.plan).ends
        wait_until(lambda: _last(archive, log) >= _segments(stack), "the archive")
        stack.stop()
        stack.stop("archive")
        assert set(ends) == {file.at for file in archive.files(log)}
        yield stack, place


def _await_files(archive: Archive, log: str, count: int) -> None:
    wait_until(lambda: len(_files(archive, log)) >= count, "a file of each life")


def _segments(stack: Stack) -> int:
    return len(stack.committed(stack.plan.logs[0].topic))


def _last(archive: Archive, log: str) -> int:
    """Count the different segments in an archive."""
    return len(
        {
            (file.at, offset)
            for file in archive.files(log)
            for offset, _ in archive.read(file.path, file.begin, file.end)
        }
    )


@pytest.mark.long
def test_a_killed_archive_has_every_segment_once(archived):
    stack, place = archived
    archive, log = Archive(place), stack.plan.logs[0].topic
    files = archive.files(log)
    values = [value for f in files for _, value in archive.read(f.path, f.begin, f.end)]

    assert sorted(values) == sorted(value for _, value in stack.committed(log))
    for at in {file.at for file in files}:
        mine = sorted((file.begin, file.end) for file in files if file.at == at)
        assert all(end == begin for (_, end), (begin, _) in pairwise(mine))
        assert len(covered([file for file in files if file.at == at])) == 1


@pytest.mark.long
@pytest.mark.parametrize("slices", [1])
def test_archive_and_topic_are_one_history(archived, sessions, slices):
    stack, place = archived
    middles = {at: end // 2 for at, end in resolve(stack.admin, stack.plan).ends.items()}
    for deleted in stack.admin.delete_records(
        [TopicPartition(*at, middle) for at, middle in middles.items()]
    ).values():
        deleted.result()

    with pytest.raises(StateError, match="offset 0 is gone, the topic begins at"):
        diff(stack.config, stack.plan, _no_spark, slices)
    result = diff(stack.config, stack.plan, sessions, slices, archive=place)

    assert result.equal, "\n".join(diff_lines(result))
    assert sum(topic.left for topic in result.topics) > 20

    _remove_one(Archive(place), stack.plan.logs[0].topic)
    with pytest.raises(StateError, match=r"offset \d+ is gone, .* The archive .* has \d+ to \d+"):
        diff(stack.config, stack.plan, _no_spark, slices, archive=place)


def _remove_one(archive: Archive, log: str) -> None:
    """Remove the second file of a partition, which makes a gap that the topic does not fill."""
    Path(_files(archive, log)[1].path).unlink()


def _files(archive: Archive, log: str) -> list[ArchiveFile]:
    """Return the files of partition 0."""
    return sorted((f for f in archive.files(log) if f.at.number == 0), key=lambda f: f.begin)


def _no_spark():
    raise AssertionError("Spark was started")
