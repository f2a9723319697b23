"""A table is loaded: it is read to the end that its topic had, before time moves."""

import msgspec
import pytest
from confluent_kafka import TopicPartition
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.runtime.ingest.in_memory import Cluster, Service, assert_tiles, outputs, record
from tests.runtime.ingest.market import LOG, OTHER, PLAN, QUOTED, QUOTES, TRADED, TRADES, built
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, OFFSET, WATERMARK
from tidemark.partition import Partition
from tidemark.plan.changes import changes
from tidemark.plan.program import program_of
from tidemark.runtime.client.progress import SourceProgress, decode, encode

EXPECTED = {
    (1_500, "a"): 1_000,
    (1_500, "b"): 800,
    (4_100, "a"): None,  # its version is older than the table keeps
    (4_100, "b"): 4_000,
    (5_200, "a"): 5_000,
    (5_200, "b"): None,
    (8_600, "a"): None,
    (8_600, "b"): 8_500,
    (9_500, "a"): 9_000,
    (9_500, "b"): 8_500,
}


@pytest.fixture
def patched(monkeypatch):
    def make(quoted=QUOTED, traded=TRADED):
        cluster = Cluster({TRADES: list(traded), QUOTES: list(quoted)})
        cluster.patch(monkeypatch)
        return cluster

    return make


def marks(cluster, source=QUOTES, log=LOG):
    found = [mark for s in cluster.log(log)[0] for mark in s.sources if mark.source == str(source)]
    return [(m.first_offset, m.next_offset, m.watermark_before_ms, m.watermark_ms) for m in found]


def answers(cluster, plan=PLAN, log=LOG):
    """Return the price of each trade, and the late rows, of the joins of a log."""
    priced: dict[tuple[int, str], int | None] = {}
    late: list[int] = []
    for _, output in outputs(cluster, plan, log):
        for name, frame in output.frames.items():
            if name == "rows":
                priced |= {(r["at"], r["symbol"]): r["price_right"] for r in frame.to_dicts()}
            elif name.startswith("late"):
                late += frame["at"].to_list()
    return priced, late


def progress(cluster, at=QUOTES):
    return decode(cluster.committed[at].metadata, SourceProgress, str(at))


def test_a_compacted_topic_answers_as_if_it_were_in_order_of_time(patched):
    cluster = patched()
    Service(cluster, PLAN, (TRADES, QUOTES)).finish()
    assert answers(cluster) == (EXPECTED, [])
    assert marks(cluster)[0] == (0, 6, NEVER_MS, NEVER_MS)
    assert progress(cluster).load_until == 6
    assert progress(cluster, TRADES).load_until is None


def test_without_a_table_rows_in_order_of_keys_are_late(patched):
    cluster = patched()
    plan = built(table=False)
    Service(cluster, plan, (TRADES, QUOTES)).finish()
    assert answers(cluster, plan)[1]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_crashes_and_cuts_change_no_answer(patched, data):
    cluster = patched()
    service = Service(cluster, PLAN, (TRADES, QUOTES))
    steps = st.sampled_from(["take", "take", "tick", "commit", "crash"])
    for step in data.draw(st.lists(steps, max_size=20)):
        if step == "take":
            at = data.draw(st.sampled_from([TRADES, QUOTES]))
            service.take(at, data.draw(st.integers(1, 4)))
        elif step == "crash":
            service = Service(cluster, PLAN, (TRADES, QUOTES))
        else:
            getattr(service, step)()
    service.finish()
    assert answers(cluster) == (EXPECTED, [])
    assert_tiles(cluster, LOG)


def test_a_successor_loads_to_the_same_end(patched):
    cluster = patched()
    first = Service(cluster, PLAN, (TRADES, QUOTES))
    first.take(QUOTES, 2)
    first.commit()
    assert (progress(cluster).next_offset, progress(cluster).load_until) == (2, 6)
    assert progress(cluster).watermark_ms == 4_990
    cluster.raw[QUOTES].append(record(2_000, symbol="c", venue="x", price=7))
    second = Service(cluster, PLAN, (TRADES, QUOTES))
    second.take(QUOTES, 4)
    second.commit()
    second.take(QUOTES, 1)
    second.commit()
    assert marks(cluster) == [
        (0, 2, NEVER_MS, NEVER_MS),
        (2, 6, NEVER_MS, NEVER_MS),
        (6, 7, 8_990, 8_990),
    ]


@pytest.mark.parametrize("read", range(1, 7))
def test_a_log_that_is_lost_while_a_table_is_loaded_is_built_again(patched, read):
    cluster = patched()
    first = Service(cluster, PLAN, (TRADES, QUOTES))
    first.take(TRADES, 3)
    first.take(QUOTES, read)
    first.commit()
    for at in [at for at in cluster.written if at.topic == LOG]:
        del cluster.written[at]
    cluster.ids[LOG] = "another id"
    Service(cluster, PLAN, (TRADES, QUOTES)).finish()
    assert answers(cluster) == (EXPECTED, [])
    assert_tiles(cluster, LOG)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data())
def test_partitions_of_a_table_change_their_process_while_it_is_loaded(patched, data):
    cluster, other = patched(quoted=QUOTED[:3]), Partition(QUOTES.topic, 1)
    cluster.raw[other] = QUOTED[3:]
    pairs = (
        ((TRADES, QUOTES), (other,)),
        ((TRADES, other), (QUOTES,)),
        ((QUOTES, other), (TRADES,)),
    )
    for owned in data.draw(st.lists(st.sampled_from(pairs), min_size=1, max_size=4)):
        services = [Service(cluster, PLAN, each) for each in owned]
        for number, count in data.draw(
            st.lists(st.tuples(st.integers(0, 1), st.integers(1, 3)), max_size=4)
        ):
            for at in owned[number]:
                services[number].take(at, count)
            services[number].commit()
    for service in (*services, *services):
        service.finish()
    assert answers(cluster) == (EXPECTED, [])
    assert_tiles(cluster, LOG)


def test_the_stats_say_how_much_of_a_table_is_left(patched):
    cluster = patched()
    service = Service(cluster, PLAN, (TRADES, QUOTES))

    def left():
        return {each.source: each.loading for each in service.task.account(0).sources}

    assert left() == {"quotes/0": 6, "trades/0": 0}
    service.take(QUOTES, 4)
    assert left() == {"quotes/0": 2, "trades/0": 0}
    service.finish()
    assert left() == {"quotes/0": 0, "trades/0": 0}


def test_a_topic_that_was_empty_is_not_loaded(patched):
    cluster = patched(quoted=[])
    service = Service(cluster, PLAN, (TRADES, QUOTES))
    service.commit()
    assert progress(cluster).load_until == 0
    cluster.raw[QUOTES] += QUOTED
    Service(cluster, PLAN, (TRADES, QUOTES)).finish()
    assert marks(cluster)[0] == (0, 6, NEVER_MS, 8_990)


def test_the_end_may_lie_behind_records_that_only_the_broker_sees(patched):
    cluster = patched()
    service = Service(cluster, PLAN, (TRADES, QUOTES))
    service.task._sources[QUOTES].load_until = 8  # two markers of transactions
    service.take(QUOTES, 10)
    service.commit()
    assert (progress(cluster).next_offset, progress(cluster).load_until) == (6, 8)
    service._positions[QUOTES] = 8
    service.task._moved.add(QUOTES)
    service.commit()
    assert (progress(cluster).next_offset, progress(cluster).load_until) == (6, 6)


def test_silence_says_what_the_watermark_of_a_loaded_source_is(patched):
    cluster = patched()
    service = Service(cluster, PLAN, (TRADES, QUOTES))
    service.finish()
    cluster.now_ms += 6_000
    service.tick()
    service.commit()
    assert marks(cluster)[-1] == (6, 6, 8_990, 8_990)


def test_a_source_that_was_read_before_a_table_read_it_goes_on(patched):
    cluster = patched()
    Service(cluster, built(table=False), (TRADES, QUOTES)).finish()
    cluster.raw[QUOTES] += QUOTED
    Service(cluster, PLAN, (TRADES, QUOTES)).finish()
    assert marks(cluster)[-1] == (6, 12, 8_990, 8_990)
    assert progress(cluster).load_until is None


def test_a_source_that_begins_anew_is_loaded_anew(patched):
    cluster = patched()
    Service(cluster, PLAN, (TRADES, QUOTES)).finish()
    past = progress(cluster)
    begun = msgspec.structs.replace(past, watermark_ms=NEVER_MS, shift=6, load_until=None)
    cluster.committed[QUOTES] = TopicPartition(*QUOTES, 0, metadata=encode(begun))
    Service(cluster, PLAN, (TRADES, QUOTES)).finish()
    assert marks(cluster)[-1] == (6, 12, NEVER_MS, NEVER_MS)
    assert progress(cluster).load_until == 12


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.data(), loaded=st.integers(0, 12))
def test_a_new_log_is_loaded_as_the_others_were(patched, data, loaded):
    """Every row of the new log has the watermark that it has in the log that was there."""
    quoted = QUOTED + [record(at, symbol="a", venue="y", price=1) for at in (8_000, 9_900, 100)] * 2
    cluster = patched(quoted=quoted[:loaded])
    old = Service(cluster, PLAN, (TRADES, QUOTES))
    old.commit()
    cluster.raw[QUOTES] = quoted
    for _ in range(data.draw(st.integers(0, 6))):
        old.take(QUOTES, data.draw(st.integers(1, 4)))
        if data.draw(st.booleans()):
            old.commit()
    old.commit()
    plan = built(other=True)
    new = Service(cluster, plan, (TRADES, QUOTES))
    for step in data.draw(st.lists(st.sampled_from(["take", "tick", "commit", "crash"]))):
        if step == "take":
            new.take(QUOTES, data.draw(st.integers(1, 5)))
        elif step == "crash":
            new = Service(cluster, plan, (TRADES, QUOTES))
        else:
            getattr(new, step)()
    new.finish()
    assert_tiles(cluster, OTHER)
    assert watermarks(cluster, OTHER) == watermarks(cluster, LOG)


def watermarks(cluster, log):
    """Return offset, event time and watermark of each row of quotes."""
    return {
        row
        for segments in cluster.log(log).values()
        for segment in segments
        for name, frame in segment.streams.items()
        if name.startswith("quotes")
        for row in frame.select(OFFSET, EVENT_TIME, WATERMARK).rows()
    }


def test_a_table_on_a_source_that_was_read_without_is_refused():
    (change,) = [
        each
        for each in changes(program_of(built(windows=True, table=False)), program_of(PLAN))
        if "source quotes" in each.what
    ]
    assert str(change) == (
        "the reading before its watermark counts of source quotes was none, is now to the end"
    )
    assert not [
        each
        for each in changes(program_of(PLAN), program_of(built(windows=True, table=False)))
        if "source quotes" in each.what
    ]
