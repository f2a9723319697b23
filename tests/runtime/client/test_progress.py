import pytest

from tidemark.core.time.segment import NEVER_MS
from tidemark.errors import StateError
from tidemark.runtime.client.progress import (
    ANY,
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


def test_the_first_operators_apart_are_left_out_if_not_all_fit():
    apart = {f"clicks-per-country-{number}": (4000, "c" * 12) for number in range(200)}
    log = LogProgress(VERSION, "8NA5iMkpR7KrFQmnNwAuRQ", 5000, apart=apart, behind=[*apart][-1:])

    found = decode(encode(log), LogProgress, "game.log/0")

    assert 60 < len(found.apart) < 200
    assert list(found.apart.items()) == list(apart.items())[-len(found.apart) :]
    assert found.behind == [ANY]


@pytest.mark.parametrize(("count", "behind"), [(100, None), (1_000, [ANY])])
def test_any_number_of_operators_may_be_behind(count, behind):
    names = [f"clicks-per-country-{number}" for number in range(count)]
    snapshots = dict.fromkeys(names, 2**40)
    log = LogProgress(VERSION, "8NA5iMkpR7KrFQmnNwAuRQ", snapshots=snapshots, behind=names)

    found = decode(encode(log), LogProgress, "game.log/0")

    assert found == LogProgress(VERSION, log.topic_id, behind=behind or names)


@pytest.mark.parametrize("text", ["", "x", "{}", '{"version":99,"topicId":"a"}'])
def test_foreign_metadata_stops_with_the_partition(text):
    with pytest.raises(StateError, match="moves/0"):
        decode(text, SourceProgress, "moves/0")


def test_a_topic_made_anew_stops():
    with pytest.raises(StateError, match=r"moves/0.*created again.*tidemark reset"):
        check_topic(SOURCE, "another", "moves/0")
