"""Rows as they are: each row of the log once, in order, whatever the cuts and batches."""

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from tests.support.logs import COLUMNS, cut_segments, event_logs, raws, recordings
from tidemark.core.operators.operator import Operator
from tidemark.core.operators.ports import ROWS, Input
from tidemark.core.operators.rows import EVENT_TIME_MS, IDENTITY, PublishRows, published_rows
from tidemark.core.operators.task import OperatorTask
from tidemark.core.time.segment import EVENT_TIME, OFFSET, SOURCE, SUB_ROW


def operator(topics, key=()):
    side = Input(tuple(topics), key, COLUMNS, frozenset(topics))
    return Operator("rows", (side,), PublishRows(key, COLUMNS))


def published(topics, batches):
    """Return the rows that a task publishes for batches of segments, in order."""
    task = OperatorTask(operator(topics))
    steps = [each for batch in batches for each in task.steps(batch)]
    frames = [each.output[ROWS] for each in steps] + [task.finish()[ROWS].drop("end_of_input")]
    return pl.concat(frames)


def expected(raw):
    """Return what raw topics hold, by topic and partition: (offset, sub_row, time, *values)."""
    return {
        tuple(source.rsplit("/", 1)): [
            (offset, sub_row, record.event_time_ms, *values)
            for offset, record in enumerate(records)
            for sub_row, values in enumerate(record.rows)
        ]
        for source, records in raw.sources.items()
    }


def by_partition(rows):
    fields = ("_offset", "_sub_row", EVENT_TIME_MS, *COLUMNS)
    found: dict[tuple[str, str], list[tuple[object, ...]]] = {}
    for row in rows.iter_rows(named=True):
        place = (row["_topic"], str(row["_partition"]))
        found.setdefault(place, []).append(tuple(row[name] for name in fields))
    return found


@given(st.data())
def test_each_row_of_the_raw_topics_comes_once_in_the_order_of_its_partition(data):
    raw = data.draw(raws())
    segments = data.draw(recordings(raw)).segments
    wanted = {place: rows for place, rows in expected(raw).items() if rows}
    assert by_partition(published(raw.topics, [segments])) == wanted
    assert by_partition(published(raw.topics, [[each] for each in segments])) == wanted


@given(st.data())
def test_cuts_batches_and_records_read_again_change_nothing(data):
    log = data.draw(event_logs())
    whole = published(log.topics, [[each] for each in log.segments])
    assert whole.equals(published(log.topics, [log.segments]))
    cut = data.draw(cut_segments(log.segments))
    assert by_partition(whole) == by_partition(published(log.topics, [[each] for each in cut]))
    assert whole.select(*IDENTITY).is_unique().all()


def test_bytes_become_text_and_columns_of_the_segment_do_not_show():
    rows = pl.DataFrame(
        {"body": [b"\xff\x00"], SOURCE: ["a/b/12"], OFFSET: [5], SUB_ROW: [1], EVENT_TIME: [7]}
    )
    assert published_rows(rows, ["body"]).to_dicts() == [
        {"body": "/wA=", "_topic": "a/b", "_partition": 12, "_offset": 5, "_sub_row": 1}
        | {EVENT_TIME_MS: 7}
    ]
