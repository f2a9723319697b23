"""The state of sessions: what changes and snapshots hold, and how runs are kept."""

import polars as pl

from tests.support.session_stream import Stream
from tidemark.core.operators.sessions import state as session_state
from tidemark.core.state import keyed_lines, line_blocks, line_table
from tidemark.core.windows.window import Session


def test_changes_tell_nothing_of_a_session_that_came_and_went_between_them():
    stream = Stream()
    stream.rows("a 0")
    stream.rows("a 5")
    changes = stream.state.changes()
    assert changes.keys() == {"put"}
    assert changes["put"].select("key", "start", "end").rows() == [("a", 0, 15)]


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
    restored = stream.body.open()
    for piece in pieces:
        restored.apply(piece)
    restored.validate()
    stream.state = restored
    assert stream.clock(15) == ["a [0,15) r2 on_time"]


def test_a_session_that_grew_within_its_bounds_and_ended_after_a_snapshot_is_gone_once():
    stream = Stream()
    stream.rows("a 0, a 5")
    stream.state.changes()
    pieces = list(stream.state.snapshot())
    stream.rows("a 2", clock=15)  # removed as it was, put back with the same bounds, removed
    pieces.append(stream.state.changes())
    restored = stream.body.open()
    for piece in pieces:
        restored.apply(piece)
        restored.validate()
    assert restored.lines.live == 0


def test_keys_with_the_same_hash_are_different_keys(monkeypatch):
    def same(keys):
        return pl.Series([7] * keys.height, dtype=pl.UInt64).to_numpy()

    for module in (keyed_lines, line_table, session_state):
        monkeypatch.setattr(module, "hashes_of", same)
    stream = Stream()
    stream.rows("a 0, b 1, - 2")
    assert stream.rows("- 4, c 3, a 5", clock=20) == [
        "b [1,11) r1 on_time final",
        "c [3,13) r1 on_time final",
        "- [2,14) r2 on_time final",
        "a [0,15) r2 on_time final",
    ]


def test_small_segments_leave_few_blocks_and_do_not_rewrite_large_ones():
    stream = Stream()
    stream.rows(",".join(f"k{n} 0" for n in range(20_000)))
    ((large, _),) = stream.state.lines.blocks.live_lines()
    for n in range(100):
        stream.rows(",".join(f"k{n}-{m} 0" for m in range(20)))
    blocks = [block for block, _ in stream.state.lines.blocks.live_lines()]
    assert blocks[0] is large
    assert len(blocks) <= 3


def test_a_session_that_was_taken_from_a_large_block_is_not_found_there_again():
    stream = Stream()
    stream.rows(",".join(f"k{n} 0" for n in range(20_000)))
    for at_ms in (3, 6, 9):
        stream.rows(f"k5 {at_ms}")
    assert len(stream.state.lines.blocks.live_lines()) == 2
    assert stream.clock(19)[-1] == "k5 [0,19) r4 on_time final"
    assert stream.clock(99) == []


def test_no_segment_copies_all_that_lives(monkeypatch):
    monkeypatch.setattr(line_blocks, "_MANY", 2)
    monkeypatch.setattr(line_blocks, "_LARGE", 1_000)
    monkeypatch.setattr(line_blocks, "_FEW", 100)
    stream = Stream(windows=Session(1_000_000))
    most = 0
    for n in range(40):
        before = [block for block, _ in stream.state.lines.blocks.live_lines()]
        stream.rows(",".join(f"k{n * 200 + m} {n}" for m in range(300)))
        blocks = [block for block, _ in stream.state.lines.blocks.live_lines()]
        most = max(most, sum(block.size for block in blocks if block not in before))
    assert stream.state.lines.live == 39 * 200 + 300
    assert most <= 300 + 2 * 1_000


def test_the_slots_and_lines_of_sessions_that_ended_are_used_again():
    stream = Stream()
    for n in range(50):
        stream.rows(",".join(f"k{n}-{m} {n * 100}" for m in range(300)), clock=n * 100 + 50)
        stream.state.purge(stream.clock_ms)
    assert stream.state.lines.live == 0
    assert stream.state.lines.alive.size <= 10_000
