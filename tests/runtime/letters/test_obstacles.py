"""Letters that name no record which could be sent again."""

import pytest

from tidemark.runtime.letters.attempts import obstacle
from tidemark.serde.letters import Letter


@pytest.mark.parametrize(
    ("stage", "topic", "reason"),
    [
        ("parse", "rows", ""),
        ("publish", "p.out", "fits no message"),
        ("sink", "p.out", "a sink refused it"),
        ("user.tumbling-1m.n", "op:user.tumbling-1m.n", "a result of many records"),
    ],
)
def test_a_letter_without_a_record_of_its_own_says_why(stage, topic, reason):
    letter = Letter("why", stage, topic, 0, 3, value="{}", value_encoding="utf-8")
    found = obstacle(letter, "game")
    assert reason in found
    assert bool(found) == bool(reason)
