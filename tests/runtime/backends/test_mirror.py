"""A mirror returns what was written, or reports that it cannot be used; nothing else."""

import os
import subprocess
import sys
from collections import deque
from collections.abc import Mapping
from itertools import starmap
from pathlib import Path

import pytest

from tests.runtime.backends.disks import await_files, small_disk
from tidemark.runtime.backends.database import LocalStoreError
from tidemark.runtime.backends.folder import claimed
from tidemark.runtime.backends.mirror import Extent, Mirror

WHOLE = Extent("id", 0, 1_000_000)


def opened(folder: Path, extent: Extent = WHOLE) -> Mirror:
    claim = claimed(folder)
    assert claim is not None
    return Mirror(claim, extent)


def held(mirror: Mirror) -> Mapping[bytes, bytes]:
    return {key: mirror.get(key) for key in mirror.sizes}


@pytest.fixture
def folder(tmp_path):
    mirror = opened(tmp_path / "mirror")
    mirror.take([(b"delta/1/0", b"one"), (b"delta/2/0", b"two")], 3)
    mirror.take([(b"snapshot/2/0", b"both"), (b"delta/1/0", None), (b"delta/2/0", None)], 7)
    mirror.close()
    return tmp_path / "mirror"


def test_a_mirror_holds_the_last_value_of_each_key(folder):
    mirror = opened(folder)

    assert mirror.fault == ""
    assert mirror.next_offset == 7
    assert held(mirror) == {b"snapshot/2/0": b"both"}
    assert mirror.sizes == {b"snapshot/2/0": 4}
    mirror.close()


def test_a_new_mirror_begins_where_the_changelog_does(tmp_path):
    mirror = opened(tmp_path / "mirror", Extent("id", 5, 9))

    assert (mirror.fault, mirror.next_offset, mirror.sizes) == ("", 5, {})
    mirror.close()


@pytest.mark.parametrize(
    ("extent", "why"),
    [
        (Extent("other", 0, 100), "another topic"),
        (Extent("id", 8, 100), "ends at offset 7, the changelog has 8 to 100"),
        (Extent("id", 0, 6), "ends at offset 7, the changelog has 0 to 6"),
    ],
    ids=["another topic", "deleted records", "lost records"],
)
def test_a_mirror_that_does_not_fit_the_changelog_is_begun_anew(folder, extent, why):
    mirror = opened(folder, extent)

    assert why in mirror.fault
    assert (mirror.next_offset, mirror.sizes) == (extent.begin, {})
    mirror.take([(b"delta/9/0", b"nine")], 50)
    mirror.close()
    assert held(opened(folder, Extent(extent.topic_id, 0, 50))) == {b"delta/9/0": b"nine"}


def test_a_folder_is_claimed_by_one_process_at_a_time(folder):
    mirror = opened(folder)
    assert claimed(folder) is None
    mirror.close()
    claim = claimed(folder)
    assert claim is not None
    claim.release()


def test_what_was_discarded_is_gone(folder):
    opened(folder).discard()

    assert not folder.exists()
    assert held(opened(folder)) == {}


def test_a_crash_loses_nothing_that_was_taken(tmp_path):
    folder = tmp_path / "mirror"
    take = (
        "import os, pathlib; from tidemark.runtime.backends.folder import claimed; "
        "from tidemark.runtime.backends.mirror import Extent, Mirror; "
        f"mirror = Mirror(claimed(pathlib.Path({str(folder)!r})), Extent('id', 0, 9)); "
        "mirror.take([(b'delta/1/0', b'one')], 3); os._exit(9)"
    )
    assert subprocess.run([sys.executable, "-c", take], check=False).returncode == 9

    assert held(opened(folder)) == {b"delta/1/0": b"one"}


def files_of_a_mirror() -> list[str]:
    return ["*.blob", "*.sst", "*.log", "MANIFEST-*", "CURRENT"]


@pytest.mark.parametrize("pattern", files_of_a_mirror())
@pytest.mark.parametrize("harm", ["flip", "cut", "delete"])
def test_harm_to_any_file_is_noticed_or_does_nothing(tmp_path, pattern, harm):
    folder = tmp_path / "mirror"
    mirror = opened(folder)
    values = {b"delta/%d/0" % n: os.urandom(100_000) for n in range(100)}
    for offset, record in enumerate(values.items()):
        mirror.take([record], offset + 1)
    files = await_files(folder, pattern)
    assert files
    mirror.close()
    for file in folder.glob(pattern):
        harmed(file, harm)

    try:
        mirror = opened(folder)
        got = held(mirror)
    except LocalStoreError:
        return
    # What a log lost is the end of it, and the offset says so.
    assert got == dict(list(values.items())[: mirror.next_offset])
    mirror.close()


def harmed(file: Path, harm: str) -> None:
    data = bytearray(file.read_bytes())
    if harm == "delete":
        file.unlink()
    elif harm == "cut":
        file.write_bytes(data[: len(data) // 2])
    elif data:
        data[len(data) // 2] ^= 255
        file.write_bytes(data)


def test_a_full_disk_is_an_error_that_names_the_folder(tmp_path):
    with small_disk(tmp_path, megabytes=20) as disk:
        disk.fill()
        mirror = opened(disk.folder / "mirror")
        records = (([(b"delta/1/0", os.urandom(100_000))], n) for n in range(200))
        with pytest.raises(LocalStoreError, match="mirror"):
            deque(starmap(mirror.take, records))
        mirror.discard()
        assert not (disk.folder / "mirror").exists()
