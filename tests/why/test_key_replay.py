"""A replay of one key gives what a run of all keys gives, and names the rows beneath each pane."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.examples import fewer
from tests.why.one_key import WINDOWS, run
from tidemark import hopping
from tidemark.core.windows.pane import END, START
from tidemark.runtime.letters.raw_records import RawRecord
from tidemark.testing import InProcess
from tidemark.why.as_test import as_test
from tidemark.why.key_replay import KeyReplay, Place, replayed, standing, windows_with
from tidemark.why.keys import partition_of, typed_key

EVENTS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from("abc"), st.integers(0, 40)), max_size=25
)


def of_key(scenario: InProcess, text: str) -> KeyReplay:
    (log,) = scenario.plan.logs
    key = typed_key(text, log.key)
    segments = scenario._log[log.topic, partition_of(key, log)]
    return replayed(scenario.plan.operators[0], key, enumerate(segments))


@pytest.mark.parametrize("window", WINDOWS)
@fewer(3)
@given(events=EVENTS)
def test_panes_late_rows_and_the_rows_beneath_are_those_of_a_run_of_all_keys(window, events):
    scenario = run(WINDOWS[window], events)
    panes = {(each["k"], each["start"]): each for each in scenario.panes("out")}
    late = {(each["row"]["k"], each["partition"], each["offset"]) for each in scenario.late("out")}
    values: dict[Place, int] = {}
    for number, (partition, _, _) in enumerate(events):
        before = sum(each[0] == partition for each in events[:number])
        values[Place(f"t/{partition}", before)] = 2**number
    seen = set()
    for key in "abc":
        replay = of_key(scenario, key)
        refused = [row for row in replay.rows.values() if row.outcome == "late"]
        assert {(key, int(r.place.source[-1]), r.place.offset) for r in refused} == {
            each for each in late if each[0] == key
        }
        if replay.results.is_empty():
            continue
        for start_ms in replay.results[START].unique():
            pane = standing(replay.panes(start_ms))
            if pane.is_empty():
                continue
            seen.add((key, start_ms))
            shown = panes[key, start_ms]
            beneath = replay.beneath(pane)
            assert len(beneath) == shown["n"]
            # Each event has a bit of its own, so the sum names the events.
            assert sum(values[row.place] for row in beneath) == shown["s"]
            for row in beneath:
                holding = [each.item(0, START) for each in windows_with(replay, row)]
                assert start_ms in holding
    assert seen == panes.keys()


def test_a_row_that_is_late_for_some_of_its_windows_is_beneath_the_others_only():
    # W is 12 s when the row at 6 s comes: [0, 8) and its lateness have passed, [4, 12) has not.
    hops = hopping("8s", "4s")
    scenario = run(hops, [(0, "a", 1), (1, "a", 1), (0, "a", 14), (1, "a", 14), (0, "a", 6)])
    replay = of_key(scenario, "a")
    by_start = {start: replay.beneath(standing(replay.panes(start))) for start in (0, 4_000)}
    assert [row.event_time_ms for row in by_start[0]] == [1_000, 1_000]
    assert [row.event_time_ms for row in by_start[4_000]] == [6_000]


def test_the_test_of_a_pane_runs_and_gives_the_pane(tmp_path):
    module = tmp_path / "shown_pipeline.py"
    module.write_text(
        "from tests.why.one_key import WINDOWS, build\npipeline = build(WINDOWS['hopping'])\n"
    )
    scenario = run(WINDOWS["hopping"], [(0, "a", 1), (1, "b", 2), (1, "a", 3)])
    replay = of_key(scenario, "a")
    pane = standing(replay.panes(0))
    records = [
        RawRecord("t", int(row.place.source[-1]), row.place.offset, -1, b"k", value, None)
        for row, value in zip(
            replay.beneath(pane),
            (json.dumps({"k": "a", "at": at, "v": v}).encode() for at, v in ((1000, 1), (3000, 4))),
            strict=True,
        )
    ]
    expected = {"k": "a", "start": 0, "end": 10_000, "n": 2, "s": 5}
    assert pane.item(0, END) == 10_000
    source = as_test(str(module), scenario.plan, "out", records, expected, 20_000)
    compiled: dict[str, Any] = {}
    exec(source, compiled)
    compiled["test_the_records_beneath_the_pane_give_it"]()
    with pytest.raises(Exception, match="these records alone do not give the pane"):
        as_test(str(module), scenario.plan, "out", records[:1], expected, 20_000)
