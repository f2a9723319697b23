"""The state of sessions: what changes and snapshots hold, and how runs are kept."""

import polars as pl

from tests.core.session_stream import Stream
from tidemark.core import keyed_runs, session_state


def test_changes_tell_nothing_of_a_session_that_came_and_went_between_them():
    stream = Stream()
    stream.rows("a 0")
    stream.rows("a 5")
    changes = stream.state.changes()
    assert changes.keys() == {"put"}
    assert changes["put"].select("key", "start", "end").rows() == [("a", 0, 15)]
    assert stream.state.changes() == {}


def test_changes_name_what_a_session_grew_from_and_what_was_published():
    stream = Stream(allowed_lateness_ms=50)
    stream.rows("a 0, b 0")
    stream.state.changes()
    stream.rows("a 5, c 20", clock=10)
    changes = stream.state.changes()
    assert changes["removed"].rows() == [("a", 0, 10)]
    assert changes["published"].rows() == [("b", 0, 10)]
    assert changes["put"]["key"].sort().to_list() == ["a", "c"]


def test_changes_made_after_a_snapshot_continue_it():
    stream = Stream(allowed_lateness_ms=50)
    stream.rows("a 0, b 0")
    pieces = list(stream.state.snapshot())
    stream.rows("a 5", clock=10)
    pieces.append(stream.state.changes())
    restored = stream.body.fresh()
    for piece in pieces:
        restored.apply(piece)
    restored.validate()
    stream.state = restored
    assert stream.clock(15) == ["a [0,15) r2 on_time"]


def test_keys_with_the_same_hash_are_different_keys(monkeypatch):
    def same(keys):
        return pl.Series([7] * keys.height, dtype=pl.UInt64).to_numpy()

    for module in (keyed_runs, session_state):
        monkeypatch.setattr(module, "hashes_of", same)
    stream = Stream()
    stream.rows("a 0, b 1, - 2")
    assert stream.rows("- 4, c 3, a 5", clock=20) == [
        "b [1,11) r1 on_time final",
        "c [3,13) r1 on_time final",
        "- [2,14) r2 on_time final",
        "a [0,15) r2 on_time final",
    ]


def test_small_segments_leave_few_runs_and_do_not_rewrite_large_ones():
    stream = Stream()
    stream.rows(",".join(f"k{n} 0" for n in range(20_000)))
    large = stream.state.runs[0]
    for n in range(100):
        stream.rows(",".join(f"k{n}-{m} 0" for m in range(20)))
    assert stream.state.runs[0] is large
    assert len(stream.state.runs) <= 3


def test_a_session_that_was_taken_from_a_large_run_is_not_found_there_again():
    stream = Stream()
    stream.rows(",".join(f"k{n} 0" for n in range(20_000)))
    for at_ms in (3, 6, 9):
        stream.rows(f"k5 {at_ms}")
    assert len(stream.state.runs) == 2
    assert stream.clock(19)[-1] == "k5 [0,19) r4 on_time final"
    assert stream.clock(99) == []
