"""State of windows in order of arrival: how much is kept, and what changes and snapshots hold."""

import numpy as np

from tests.support.arrival_stream import Stream
from tests.support.stores import on_disk
from tidemark.core.windows.arrival import CountWindow


def test_purging_takes_nothing_away_and_a_key_is_counted_on_for_ever():
    pairs = Stream(CountWindow(2, 2))
    pairs.rows("a 1 1, a 2 2, b 1 5")
    pairs.state.purge(2**62)
    assert pairs.rows("a 3 3, a 4 4, b 2 6") == [
        "a #1 [3,5) 7 r2 on_time final",
        "b #0 [1,3) 11 r2 on_time final",
    ]


def test_state_is_bounded_by_keys_and_the_slices_of_a_window():
    hopping = Stream(CountWindow(6, 2))
    for _ in range(30):
        hopping.rows("a 1 1, b 1 1, b 2 2")
    ((slices,),) = (piece.values() for piece in hopping.state.snapshot())
    assert max(slices.group_by("key").len()["len"].to_list()) <= 6 // 2 + 1


def test_slices_of_a_key_stay_together_in_a_snapshot_however_small_frames_are():
    hopping = Stream(CountWindow(6, 1))
    hopping.state = hopping.body.open(on_disk())
    hopping.rows("a 1 1, a 2 2, a 3 3, a 4 4, a 5 5, b 1 1")
    hopping.state.changes()
    pieces = list(hopping.state.snapshot())
    hopping.state = hopping.body.open()
    for piece in pieces:
        hopping.state.apply(piece)
    assert hopping.rows("a 6 6") == ["a #0 [1,7) 21 r6 on_time final"]


def test_changes_hold_only_the_keys_that_changed():
    pairs = Stream(CountWindow(2, 2))
    pairs.rows("a 1 1, b 1 1")
    pairs.state.changes()
    pairs.rows("b 2 2, b 3 3")
    (changed,) = pairs.state.changes().values()
    assert changed["key"].to_list() == ["b"]


def test_keys_with_the_same_hash_are_different_keys(monkeypatch):
    for module in ("state.keyed_lines", "state.line_table", "operators.arrival.state"):
        monkeypatch.setattr(
            f"tidemark.core.{module}.hashes_of", lambda keys: np.full(keys.height, 7, np.uint64)
        )
    pairs = Stream(CountWindow(2, 2))
    pairs.rows("a 1 1, b 1 2, - 1 3")
    assert pairs.rows("- 2 4, b 2 3, a 2 1") == [
        "- #0 [1,3) 7 r2 on_time final",
        "b #0 [1,3) 5 r2 on_time final",
        "a #0 [1,3) 2 r2 on_time final",
    ]
