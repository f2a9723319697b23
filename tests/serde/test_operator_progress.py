"""Progress of an operator survives its bytes; other bytes are an error."""

import pytest

from tidemark.core.time.announcer import TaskProgress
from tidemark.core.time.segment import NEVER_MS
from tidemark.errors import StateError
from tidemark.serde.operator_progress import decode_progress, encode_progress


def test_progress_survives_its_bytes():
    for progress in (TaskProgress(0, 0, NEVER_MS, True), TaskProgress(63, 2**40, 17, False)):
        key, value = encode_progress(progress)
        assert decode_progress(value) == progress
        assert key == str(progress.partition).encode()


def test_other_bytes_are_an_error():
    with pytest.raises(StateError, match="no OperatorProgress of this version"):
        decode_progress(b"{}")
