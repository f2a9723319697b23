"""What a crash in the middle of a commit does to results, log and dead letters, by guarantee."""

import pytest

from tests.kafka.pipelines import crashing
from tests.kafka.support.stack import Stack, duplicates, wait_until
from tidemark.serde.segments import decode_segment

T = 1_772_438_400_000

#            windowing dies            ingest dies
#   0 .. 9   12.5                      21    a bad record       40       100
#  [0------------)[10-----------)[20-----------)           [40------)
ONCE = {T: 10, T + 10_000: 1, T + 20_000: 1, T + 40_000: 1}
LOST = {T: 10, T + 40_000: 1}


@pytest.mark.parametrize(
    ("guarantee", "counts", "repeated", "dead", "rows"),
    [
        ("exactly-once", ONCE, [], 1, 14),
        pytest.param("at-least-once", ONCE, [T], 2, 15, marks=pytest.mark.long),
        pytest.param("at-most-once", LOST, [], 0, 13, marks=pytest.mark.long),
    ],
)
def test_a_crash_between_output_and_offsets(broker, guarantee, counts, repeated, dead, rows):
    name = f"crash-{guarantee}"
    with Stack(broker, name, module=crashing, TIDEMARK_GUARANTEE=guarantee) as stack:
        stack.start("ingest", "windowing")
        stack.produce((0, None, move(at)) for at in range(0, 10_000, 1_000))
        wait_until(lambda: stack.figures("windowing").get("rows") == "10", "ten rows")

        crash(stack, "windowing", [move(12_500)])
        wait_until(lambda: stack.figures("windowing").get("lag") == "0", "windowing")
        crash(stack, "ingest", [move(21_000), b"no JSON"])

        stack.produce((0, None, move(at)) for at in (40_000, 100_000))
        stack.await_results("pops", lambda panes: any(p["start"] == T + 40_000 for p in panes))
        assert set(stack.stop().values()) == {0}
        panes = stack.results("pops")
        assert {pane["start"]: pane["pops"] for pane in panes} == counts
        assert [start for (_, start, *_) in duplicates(panes)] == repeated
        assert len(stack.results("dead-letters")) == dead
        log = stack.committed(f"{name}.by-player.log")
        assert sum(decode_segment(value or b"").height for _, value in log) == rows


def move(at: int) -> bytes:
    return b'{"player":"a","at":%d,"score":1}' % (T + at)


def crash(stack: Stack, service: str, values: list[bytes]) -> None:
    """Let a service die in the commit of values, and start it again."""
    assert stack.stop(service) == {service: 0}
    stack.start(service, TEST_CRASH="1")
    stack.produce((0, None, value) for value in values)
    assert stack.process(service).wait() == crashing.STATUS
    stack.start(service)
