"""RocksDB as backends need it: a write that stalls is tried again, and not for ever."""

import pytest
from rocksdict import Rdict, WriteOptions

from tidemark.runtime.backends import database
from tidemark.runtime.backends.database import Database, LocalStoreError

STALL = "Result incomplete: Write stall"


class Stalling:
    """A database of RocksDB that refuses some writes at first."""

    def __init__(self, rocks, refusals, reason=STALL):
        self.rocks, self.refusals, self.reason = rocks, refusals, reason

    def write(self, batch):
        if self.refusals:
            self.refusals -= 1
            raise Exception(self.reason)  # noqa: TRY002 - as RocksDB's binding does
        self.rocks.write(batch)


@pytest.fixture
def opened(tmp_path):
    made = Database(tmp_path / "one", survives=True)
    rocks = made._rocks
    yield made
    made._rocks = rocks
    made.close()


def test_a_write_that_stalls_is_tried_again_whole(opened):
    opened._rocks = Stalling(rocks := opened._rocks, refusals=3)
    opened.write(iter([(b"a", b"1"), (b"b", b"2"), (b"a", None)]))

    opened._rocks = rocks
    assert (opened.get(b"a"), opened.get(b"b")) == (None, b"2")


def test_a_write_that_stalls_for_long_is_an_error_that_names_the_folder(opened, monkeypatch):
    monkeypatch.setattr(database, "_STALL_S", 0.0)
    opened._rocks = Stalling(opened._rocks, refusals=1_000_000)

    with pytest.raises(LocalStoreError, match=rf"{opened.folder}: {STALL}"):
        opened.write([(b"a", b"1")])


def test_other_faults_are_not_tried_again(opened):
    opened._rocks = Stalling(opened._rocks, refusals=1, reason="IO error: No space left")

    with pytest.raises(LocalStoreError, match="No space left"):
        opened.write([(b"a", b"1")])


def test_rocksdb_refuses_a_write_that_would_stall_in_the_words_that_are_looked_for(tmp_path):
    options = database._options()
    options.set_write_buffer_size(64 * 2**10)
    how = WriteOptions()
    how.disable_wal = True  # type: ignore[method-assign, assignment]  # no method
    how.no_slowdown = True
    rocks = Rdict(str(tmp_path / "small"), options)
    rocks.set_write_options(how)

    with pytest.raises(Exception, match=database._STALLED):
        write_fast(rocks)
    rocks.close()


def write_fast(rocks):
    for number in range(100_000):
        rocks.write(database._batch([(number.to_bytes(8, "big"), bytes(4_000))]))
