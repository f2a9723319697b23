"""Panes that fit no message become dead letters; their neighbours stay."""

from tidemark.runtime.keyed.oversized import MOST_BYTES, parted


def test_what_fits_is_left_alone():
    keys, values = [b"a", None], [b"1", None]
    assert parted("p.out", 0, keys, values) == (keys, values, [])


def test_a_pane_too_large_is_told_with_its_key_and_size():
    values = [b"1", b"x" * MOST_BYTES, b"2"]
    keys, kept, (letter,) = parted("p.out", 3, [b"a", b"b", b"c"], values)
    assert (keys, kept) == ([b"a", b"c"], [b"1", b"2"])
    assert (letter.key, letter.topic, letter.partition) == (b"b", "p.out", 3)
    assert letter.reason == (
        f"pane of {MOST_BYTES + 1:,} bytes: at most {MOST_BYTES:,} fit a message"
    )
