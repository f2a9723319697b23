from tidemark.runtime.service.batch_sizer import BatchSizer


def test_portions_begin_small_and_grow_while_they_are_quick():
    batch_sizer = BatchSizer(64, transaction_timeout_ms=30_000)
    sizes = []
    for _ in range(8):
        sizes.append(batch_sizer.size)
        batch_sizer.took(batch_sizer.size, 0.1)
    assert sizes == [1, 2, 4, 8, 16, 32, 64, 64]


def test_a_portion_that_takes_too_long_is_cut_to_what_fits():
    batch_sizer = BatchSizer(20_000, transaction_timeout_ms=10_000)
    batch_sizer.took(312, 0.5)
    assert batch_sizer.size == 624
    batch_sizer.took(600, 6.0)
    assert batch_sizer.size == 100
    batch_sizer.took(100, 1_000.0)
    assert batch_sizer.size == 1


def test_a_portion_that_was_not_full_says_nothing_of_larger_ones():
    batch_sizer = BatchSizer(64, transaction_timeout_ms=30_000)
    batch_sizer.took(1, 0.1)
    batch_sizer.took(1, 0.1)
    assert batch_sizer.size == 2
