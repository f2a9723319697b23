"""Which logs prove that a broker has lost the end of a transaction."""

import struct

from tests.chaos.lost_ends import Batch, lost_ends, still_open, unended

DATA, MARKER = 0x10, 0x30
ONGOING, COMPLETE = 1, 4


def data(offset, producer, epoch):
    return Batch(offset, producer, epoch, is_marker=False)


def marker(offset, producer, epoch):
    return Batch(offset, producer, epoch, is_marker=True)


def test_transactions_that_end_prove_nothing():
    ended = [data(0, 7, 0), data(5, 7, 0), marker(9, 7, 1), data(10, 7, 1), data(12, 8, 0)]
    assert unended([*ended, marker(13, 8, 1), marker(14, 7, 2)]) == []


def test_a_newer_epoch_behind_an_open_transaction_proves_it():
    assert unended([data(0, 7, 0), data(3, 8, 4), data(6, 7, 1), marker(9, 7, 2)]) == [6]


def test_what_no_marker_follows_is_open():
    last = data(5, 8, 0)
    assert still_open([data(0, 7, 0), last, marker(9, 7, 0)]) == [last]


def batch(offset, attributes, producer, records=b"", count=0):
    """A batch as a file of a partition has it."""
    fields = (0, 2, 0, attributes, 0, 0, 0, producer, 0, 0, count)
    return struct.pack(">qiibIhiqqqhii", offset, 49 + len(records), *fields) + records


def noted(producer, status):
    """A batch of the coordinator's log: one record with key ``x``."""
    value = struct.pack(">hqhib", 1, producer, 0, 10_000, status) + b"more"
    record = bytes([0, 0, 0, 2]) + b"x" + bytes([2 * len(value)]) + value + b"\0"
    return batch(0, 0, -1, bytes([2 * len(record)]) + record, 1)


def written(folder, **files):
    for name, content in files.items():
        (folder / name.replace("_at_", "-")).mkdir()
        (folder / name.replace("_at_", "-") / "0.log").write_bytes(content)


def test_an_open_transaction_that_is_complete_for_its_coordinator_proves_it(tmp_path):
    """Of producers 7 to 9 only the first is let down: 8 goes on, and 9 has its marker."""
    written(
        tmp_path,
        __transaction_state_at_0=noted(7, ONGOING) + noted(7, COMPLETE) + noted(8, ONGOING),
        __transaction_state_at_1=noted(9, COMPLETE) + bytes(100),
        __consumer_offsets_at_3=batch(0, DATA, 9) + batch(1, DATA, 7) + batch(2, MARKER, 9),
        chaos_at_0=batch(0, DATA, 8),
    )
    assert lost_ends(tmp_path, "chaos") == ["__consumer_offsets-3 at 1"]
