"""Blocks come back equal from the disk, memory stays within its budget, and no fault shows."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from tests.runtime.backends.disks import KB, await_files, small_disk
from tidemark.core.state.own_buffers import buffer_bytes
from tidemark.runtime.backends import database, spill
from tidemark.runtime.backends.database import LocalStoreError
from tidemark.runtime.backends.spill import SpillingBlocks


def block(seed: int, kilobytes: int = 10) -> pl.DataFrame:
    """Return a frame that does not compress."""
    draw = np.random.default_rng(seed)
    size = 128 * kilobytes
    return pl.DataFrame({"n": np.full(size, seed, np.int8), "v": draw.integers(0, 2**62, size)})


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SpillingBlocks]:
    made = SpillingBlocks(tmp_path / "blocks", 50 * KB, 5 * KB)
    yield made
    made.close()


def test_every_kind_of_column_comes_back_the_same(store):
    frame = pl.DataFrame(
        {
            "int": [None, -(2**63)],
            "float": [float("nan"), -0.0],
            "text": ["", "é" * 1_000],
            "list": [[{"a": 1, "b": [None]}], None],
            "time": pl.Series([0, None], dtype=pl.Datetime("us", "UTC")),
            "wide": pl.Series([2**100, None], dtype=pl.Int128),
            "decimal": pl.Series(["1.10", None]).cast(pl.Decimal(38, 2)),
            "bytes": [b"\0", b""],
            "null": [None, None],
        }
    )
    stored = store.put(0, frame)
    store.put(0, block(1, 60))

    assert store.spilled == 2
    assert stored.height == 2
    read = stored.frame()
    assert read.schema == frame.schema
    assert read.equals(frame)
    assert read["float"].to_arrow().to_string() == frame["float"].to_arrow().to_string()


def test_state_that_fits_never_touches_the_disk(store):
    held = [store.put(n, pl.DataFrame({"n": [n]})) for n in range(100)]

    assert [each.frame()["n"].item() for each in held] == list(range(100))
    assert not store.folder.exists()


def test_blocks_take_no_more_memory_than_their_budget(store):
    frames = [block(n) for n in range(40)]
    held = []
    for n, frame in enumerate(frames):
        held.append(store.put(n, frame))
        assert store.resident_bytes <= 50 * KB
    for stored, frame in zip(held, frames, strict=True):
        assert stored.frame().equals(frame)
        assert store.resident_bytes <= 50 * KB


def test_a_block_larger_than_the_budget_goes_to_disk_and_comes_back(store):
    frame = block(1, 200)
    stored = store.put(0, frame)

    assert store.resident_bytes == 0
    assert stored.frame().equals(frame)


def test_a_part_of_a_frame_takes_the_space_of_the_part(store):
    """Nested texts of a part are views into the buffers of the whole frame."""
    whole = pl.DataFrame({"rows": [[{"text": f"{n:0>200}"}] for n in range(5_000)]})
    part = whole[100:110]
    stored = store.put(0, part)
    in_memory = stored.frame()
    store.put(0, block(1, 60))
    read = stored.frame()

    assert store.reads == 1
    assert in_memory.equals(part)
    assert read.equals(part)
    assert buffer_bytes(in_memory["rows"]) < 2 * part.estimated_size()
    assert buffer_bytes(read["rows"]) < 2 * part.estimated_size()


def test_blocks_used_last_stay(store):
    held = [store.put(n, block(n)) for n in range(4)]
    for _ in range(10):
        held[0].frame()
        held.append(store.put(9, block(9)))

    assert store.reads == 0
    held[1].frame()
    assert store.reads == 1


def test_a_block_that_nobody_refers_to_is_gone_from_memory_and_disk(store):
    held = [store.put(n, block(n)) for n in range(40)]
    assert store.spilled > 30
    held.clear()
    store.put(0, block(0, 1))

    assert store.spilled == 0
    assert store.resident_bytes < 5 * KB


def test_times_far_outside_of_any_events_are_taken(store):
    held = [store.put(due, block(n)) for n, due in enumerate((-(2**63) - 9, 2**63 + 9, -1, 0))]
    store.put(0, block(9, 100))

    assert [each.frame()["n"][0] for each in held] == [0, 1, 2, 3]


def test_a_full_disk_keeps_blocks_in_memory_until_there_is_room(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(spill, "_RETRY_S", 0.0)
    with small_disk(tmp_path, megabytes=30) as disk:
        disk.fill()
        store = SpillingBlocks(disk.folder / "blocks", 50 * KB, 5 * KB)
        frames = [block(n, 1_000) for n in range(40)]
        held = [store.put(n, frame) for n, frame in enumerate(frames)]
        assert store.resident_bytes > 50 * KB
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert "state stays in memory" in caplog.text

        disk.make_room()
        disk.await_recovery(lambda: held.append(store.put(0, block(0, 1))), lambda: store.spilled)
        for stored, frame in zip(held, frames, strict=False):
            assert stored.frame().equals(frame)
        store.close()


def test_a_folder_that_cannot_be_written_keeps_blocks_in_memory(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    store = SpillingBlocks(tmp_path / "file" / "blocks", 50 * KB, 5 * KB)
    frames = [block(n) for n in range(20)]
    held = [store.put(n, frame) for n, frame in enumerate(frames)]

    assert [stored.frame().equals(frame) for stored, frame in zip(held, frames, strict=True)]
    assert store.spilled == 0
    assert len(caplog.records) == 1


def test_a_block_that_cannot_be_read_back_is_an_error_that_names_the_folder(tmp_path):
    store = SpillingBlocks(tmp_path / "blocks", 50 * KB, 5 * KB)
    held = [store.put(n, block(n, 1_000)) for n in range(30)]
    for file in await_files(store.folder, "*.blob"):
        file.write_bytes(bytes(file.stat().st_size))

    with pytest.raises(LocalStoreError, match=str(store.folder)):
        [each.frame() for each in held]


def test_what_rocksdb_raises_has_one_name(tmp_path):
    opened = database.Database(tmp_path / "one", survives=True)
    with pytest.raises(LocalStoreError, match="one"):
        database.Database(tmp_path / "one", survives=True)
    opened.close()
    with pytest.raises(LocalStoreError):
        opened.get(b"key")
