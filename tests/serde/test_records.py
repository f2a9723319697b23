import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidemark.serde.records import RecordBatch


@given(st.lists(st.none() | st.binary(max_size=9), max_size=12), st.integers(1, 20))
def test_pieces_tile_a_batch_and_keep_its_columns(values: list[bytes | None], most_bytes: int):
    whole = RecordBatch.of_values("t", 0, 7, values, received_at_ms=3)
    pieces = list(whole.pieces(most_bytes))

    assert [value for piece in pieces for value in piece.values] == values
    assert np.concatenate([piece.offsets for piece in pieces]).tolist() == whole.offsets.tolist()
    ends = [piece.next_offset for piece in pieces]
    assert ends == [int(piece.offsets[0]) for piece in pieces[1:]] + [whole.next_offset]
    for piece in pieces:
        assert len(piece) == len(piece.keys) == len(piece.headers) == len(piece.timestamps)
        assert len(piece) <= 1 or sum(len(v or b"") for v in piece.values) <= most_bytes
