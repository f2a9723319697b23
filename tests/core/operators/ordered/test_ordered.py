"""Rows in order of event time, against the oracle: whatever is cut, batched, restored or purged."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tests.oracles.ordered import OrderedRow, distinct, run_in_order, scan
from tests.support.logs import COLUMNS, cut_segments, event_logs, raws, recordings
from tests.support.operators import ordered
from tests.support.running import incidents, late_row, outputs
from tidemark.core.operators.ordered.distinct import Distinct
from tidemark.core.operators.ordered.operator import OrderedRows
from tidemark.core.operators.ports import LATE, ROWS
from tidemark.core.operators.task import OperatorTask
from tidemark.core.time.segment import OFFSET, SOURCE, SUB_ROW

RULES = st.tuples(st.just("distinct"), ordered.distincts) | st.tuples(
    st.just("scan"), ordered.scans
)


def operator(drawn, topics):
    kind, spec = drawn
    return getattr(ordered, kind)(spec, topics)


def rule(drawn):
    kind, spec = drawn
    if kind == "scan":
        return scan(spec)
    by, within_ms = spec
    return distinct(within_ms, by_value=len(by) > 1)


def rows(frame):
    made = [name for name in ordered.VALUES if name in frame.columns]
    return [
        OrderedRow(
            row["key"],
            row["value"],
            f"{row['_topic']}/{row['_partition']}",
            row["_offset"],
            row["_sub_row"],
            row["_event_time_ms"],
            tuple(row[name] for name in made),
        )
        for row in frame.iter_rows(named=True)
    ]


def run(operator, segments, happen=None):
    """Return the rows of each step, the late rows, and the number of duplicates."""
    steps, late, tally = [], [], 0
    for output, _ in outputs(operator, segments, happen):
        steps.append(rows(output[ROWS]))
        late += [late_row(row) for row in output[LATE].iter_rows(named=True)]
        tally += output.duplicates
    return steps, late, tally


@given(event_logs(), RULES, incidents())
def test_rows_and_late_rows_are_the_oracles_whatever_is_restored_or_purged(log, drawn, happen):
    expected = run_in_order(log.segments, log.topics, rule(drawn))

    steps, late, duplicates = run(operator(drawn, log.topics), log.segments, happen)

    assert steps == expected.steps
    assert late == expected.late
    taken = run(operator(("scan", None), log.topics), log.segments)[0]
    assert duplicates == sum(map(len, taken)) - sum(map(len, steps))


@given(st.data(), event_logs(), RULES)
def test_cuts_change_no_row_and_not_their_order(data, log, drawn):
    cut = data.draw(cut_segments(log.segments))

    whole, parts = (run(operator(drawn, log.topics), each) for each in (log.segments, cut))

    assert [row for step in parts[0] for row in step] == [row for step in whole[0] for row in step]
    assert sorted(parts[1]) == sorted(whole[1])
    assert parts[2] == whole[2]


@given(st.data(), raws(), RULES)
def test_all_recordings_of_the_raw_records_give_the_same(data, raw, drawn):
    runs = []
    for log in (data.draw(recordings(raw)), data.draw(recordings(raw))):
        steps, late, duplicates = run(operator(drawn, log.topics), log.segments)
        every = sorted((row for step in steps for row in step), key=repr)
        runs.append((every, sorted(late, key=repr), duplicates))

    assert runs[0] == runs[1]


def released(body, state, *moves):
    """Let rows wait, move the clock, and return the values of the rows that come out."""
    found = []
    for number, (times, clock_ms) in enumerate(moves):
        frame = pl.DataFrame(
            {
                SOURCE: ["t/0"] * len(times),
                OFFSET: [number * 10 + place for place in range(len(times))],
                SUB_ROW: pl.Series([0] * len(times), dtype=pl.Int32),
                "@event_time": times,
                "@watermark": [-(2**63)] * len(times),
                "key": ["a"] * len(times),
                "value": times,
            }
        )
        body.process({"input": frame}, state)
        found.append(body.advance(state, clock_ms - 1, clock_ms)[ROWS]["value"].to_list())
        state.purge(clock_ms)
    return found


def test_distinct_counts_from_the_row_kept_and_forgets_it_with_the_time():
    body = OrderedRows(Distinct(("key",), 60), ("key",), COLUMNS)
    state = body.open()

    found = released(body, state, ([50, 0], 51), ([100], 101), ([159, 160], 161), ([], 220))

    assert found == [[0], [100], [160], []]
    assert body.duplicates(state) == 2
    assert state.open_windows() == 0


def test_many_rows_come_out_in_portions():
    body = OrderedRows(Distinct(("value",), 1), ("key",), COLUMNS)
    state = body.open()
    times = list(range(50_000))
    released(body, state, (times, 0))

    heights = [
        portion.frames[ROWS].height for portion in body.advance_in_portions(state, 0, 60_000)
    ]

    assert sum(heights) == 50_000
    assert max(heights) <= 16_384


def test_a_restored_row_has_the_columns_of_the_stream_as_it_is_now():
    old = OrderedRows(Distinct(("key",), 5), ("key",), COLUMNS)
    state = old.open()
    released(old, state, ([7], 0))
    columns = {"key": COLUMNS["key"], "more": pl.Float64()}
    new = OrderedRows(Distinct(("key",), 5), ("key",), columns)
    restored = new.open()
    restored.apply(state.changes())

    assert new.advance(restored, 0, 8)[ROWS].select(*columns).rows() == [("a", None)]


def test_an_operator_takes_batches():
    assert OperatorTask(operator(("scan", None), ("t",))).operator.body.can_batch
