"""Records whose rows no segment could hold die, and their neighbours pass."""

from tidemark import Pipeline, col, count, monotonic, tumbling
from tidemark.core.rows.row_size import MAX_RECORD_BYTES
from tidemark.local.run import LocalRun


def run(values, operators=lambda stream: stream):
    pipeline = Pipeline("p", partitions=1)
    source = pipeline.source(
        "in",
        schema={"k": str, "at": int, "pad": str, "tags": list[str]},
        event_time="at",
        watermark=monotonic(),
    )
    keyed = operators(source).key_by("k").window(tumbling("1h"))
    keyed.aggregate(rows=count()).to("out")
    local = LocalRun(pipeline.plan())
    list(local.run({"in": values}))
    return local


def record(pad, tags="[]"):
    return b'{"k":"a","at":1,"pad":"%s","tags":%s}' % (b"z" * pad, str(tags).encode())


ROOM = MAX_RECORD_BYTES - 9  # beside k and at


def test_a_record_larger_than_a_segment_dies_and_its_neighbours_pass():
    local = run([record(1), record(ROOM), record(ROOM + 1), record(2)])

    (letter,) = local.dead_letters
    assert (letter.offset, letter.stage) == (2, "log")
    assert letter.reason == "rows of 4,194,305 bytes, at most 4,194,304 are possible"
    assert local.counts["in"].passed == 3
    assert local.published["out"].last_panes()["rows"].to_list() == [3]


def test_members_that_are_no_columns_take_no_room():
    value = b'{"other":"%s",%s' % (b"z" * (3 * MAX_RECORD_BYTES), record(1)[1:])

    assert run([value]).counts["in"].passed == 1


def test_a_list_that_would_fill_the_memory_dies_before_it_is_exploded():
    """A terabyte, were it done."""
    bomb = record(2**20, "[" + '"x",' * 2**20 + "null]")
    local = run([record(1, '["x","y"]'), bomb], lambda s: s.explode("tags"))

    (letter,) = local.dead_letters
    assert (letter.offset, letter.stage) == (1, "explode(tags)")
    assert local.published["out"].last_panes()["rows"].to_list() == [2]


def test_rows_that_python_makes_count_together():
    def doubled(row):
        return [{"k": row["k"], "pad": row["pad"]}] * 2

    local = run(
        [record(1000), record(MAX_RECORD_BYTES // 2)],
        lambda s: s.flat_map(doubled, {"k": str, "pad": str}),
    )

    assert [(each.offset, each.stage) for each in local.dead_letters] == [(1, "log")]


def test_what_is_filtered_takes_no_room():
    local = run([record(2 * ROOM)], lambda s: s.filter(col("k") == "b"))

    assert local.counts["in"].filtered == 1
