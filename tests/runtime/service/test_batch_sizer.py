from tidemark.runtime.service.batch_sizer import Portion


def test_portions_begin_small_and_grow_while_they_are_quick():
    portion = Portion(64, transaction_timeout_ms=30_000)
    sizes = []
    for _ in range(8):
        sizes.append(portion.size)
        portion.took(portion.size, 0.1)
    assert sizes == [1, 2, 4, 8, 16, 32, 64, 64]


def test_a_portion_that_takes_too_long_is_cut_to_what_fits():
    portion = Portion(20_000, transaction_timeout_ms=10_000)
    portion.took(312, 0.5)
    assert portion.size == 624
    portion.took(600, 6.0)
    assert portion.size == 100
    portion.took(100, 1_000.0)
    assert portion.size == 1


def test_a_portion_that_was_not_full_says_nothing_of_larger_ones():
    portion = Portion(64, transaction_timeout_ms=30_000)
    portion.took(1, 0.1)
    portion.took(1, 0.1)
    assert portion.size == 2
