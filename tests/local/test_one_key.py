"""``key_by()`` without columns: all rows have one key, which results do not show."""

import json

import pytest

from tests.support.clicks import LINES, MINUTE, clicks
from tidemark import (
    Pipeline,
    count,
    count_distinct,
    count_window,
    custom,
    every,
    hopping,
    on_close,
    session,
    sliding,
    tumbling,
)
from tidemark.testing import InProcess


class Times:
    """The sum of the times that are not null, in Python."""

    def init(self):
        return 0

    def add(self, state, row):
        return state + (row["at"] or 0)

    def merge(self, left, right):
        return left + right

    def result(self, state):
        return state


ALL_KINDS = {
    "tumbling": lambda k: k.window(MINUTE),
    "early": lambda k: k.window(hopping("1m", "30s"), trigger=on_close(early=every(rows=2))),
    "late": lambda k: k.window(MINUTE, allowed_lateness="1m"),
    "empty": lambda k: k.window(tumbling("5m"), empty=True),
    "sliding": lambda k: k.window(sliding("5s")),
    "session": lambda k: k.window(session("10s")),
    "arrival": lambda k: k.window(count_window(2)),
    "rolling": lambda k: k,
}


@pytest.mark.parametrize("kind", ALL_KINDS)
@pytest.mark.parametrize("form", ["json", "avro"])
def test_one_key_of_all_rows_is_a_key_that_results_do_not_show(kind, form):
    found = []
    for keyed in (lambda s: s.key_by(), lambda s: s.key_by("group")):
        pipeline = Pipeline("game", 3)
        windowed = ALL_KINDS[kind](keyed(clicks(pipeline)))
        windowed.aggregate(
            n=count(), users=count_distinct("user"), at=custom(Times(), "at", int)
        ).to("out", form)
        run = InProcess(pipeline)
        run.send("clicks", *map(json.loads, LINES))
        run.send("clicks", {"user": "late", "at": 0, "group": "g"})
        found.append(([dict(each) for each in run.published("out")], run.late("out")))
    (without, late), (with_key, late_of_key) = found
    assert without
    assert [{**each, "group": "g"} for each in without] == with_key
    assert late == late_of_key
