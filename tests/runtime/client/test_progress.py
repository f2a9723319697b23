import pytest

from tidemark.core.time.segment import NEVER_MS
from tidemark.errors import StateError
from tidemark.runtime.client.progress import (
    MAX_BYTES,
    VERSION,
    LogProgress,
    SourceProgress,
    check_topic,
    decode,
    encode,
)

SOURCE = SourceProgress(VERSION, "8NA5iMkpR7KrFQmnNwAuRQ", 2**63 - 1, NEVER_MS, 2**62, 2**62)


def test_progress_survives_as_text_within_its_limit():
    log = LogProgress(VERSION, "8NA5iMkpR7KrFQmnNwAuRQ", 2**63 - 1)

    assert decode(encode(SOURCE), SourceProgress, "moves/0") == SOURCE
    assert decode(encode(log), LogProgress, "game.log/0") == log
    assert len(encode(SOURCE)) < MAX_BYTES / 4


@pytest.mark.parametrize("text", ["", "x", "{}", '{"version":99,"topicId":"a"}'])
def test_foreign_metadata_stops_with_the_partition(text):
    with pytest.raises(StateError, match="moves/0"):
        decode(text, SourceProgress, "moves/0")


def test_a_topic_made_anew_stops():
    with pytest.raises(StateError, match=r"moves/0.*created again.*tidemark reset"):
        check_topic(SOURCE, "another", "moves/0")
