"""Which logs prove that a broker has lost the end of a transaction."""

from tests.chaos.lost_ends import Batch, unended


def data(offset, producer, epoch):
    return Batch(offset, producer, epoch, is_marker=False)


def marker(offset, producer, epoch):
    return Batch(offset, producer, epoch, is_marker=True)


def test_transactions_that_end_prove_nothing():
    ended = [data(0, 7, 0), data(5, 7, 0), marker(9, 7, 1), data(10, 7, 1), data(12, 8, 0)]
    assert unended([*ended, marker(13, 8, 1), marker(14, 7, 2)]) == []


def test_a_newer_epoch_behind_an_open_transaction_proves_it():
    assert unended([data(0, 7, 0), data(3, 8, 4), data(6, 7, 1), marker(9, 7, 2)]) == [6]
