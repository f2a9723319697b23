"""The past in rings, against a list of all samples: docs/monitor.md, "History"."""

from hypothesis import given
from hypothesis import strategies as st

from tidemark.monitor.history import MEANS, RINGS, Point, Ring, chart, slot, with_sample

RING = Ring("test", 10, 4)
SAMPLES = st.lists(
    st.tuples(
        st.integers(0, 35),
        st.dictionaries(st.sampled_from(["rate:a", "lag:a"]), st.integers(0, 9), max_size=2),
    ),
    max_size=40,
)


def expected(samples: list[tuple[int, dict[str, int]]], now_ms: int) -> dict[str, list[object]]:
    """The values of the last steps, from all samples."""
    steps = [now_ms // RING.step_ms - back for back in reversed(range(RING.slots))]
    found: dict[str, list[object]] = {}
    for name in sorted({name for _, sample in samples for name in sample}):
        values: list[object] = []
        for step in steps:
            its = [s[name] for at, s in samples if at // RING.step_ms == step and name in s]
            mean = sum(its) / len(its) if its else None
            values.append(mean if name.startswith(MEANS) else max(its, default=None))
        if any(value is not None for value in values):
            found[name] = values
    return found


@given(gaps=SAMPLES, later_ms=st.integers(0, 50))
def test_a_ring_shows_what_all_samples_say(gaps, later_ms):
    at_ms = 0
    samples: list[tuple[int, dict[str, int]]] = []
    slots: dict[str, Point] = {}
    for gap_ms, sample in gaps:
        at_ms += gap_ms
        samples.append((at_ms, sample))
        key = slot(RING, at_ms)
        slots[key] = with_sample(slots.get(key), RING, at_ms, sample)
    shown = chart(RING, slots.values(), at_ms + later_ms)
    assert len(slots) <= RING.slots
    assert shown["series"] == expected(samples, at_ms + later_ms)
    last_ms = shown["begin_ms"] + (RING.slots - 1) * RING.step_ms
    assert last_ms <= at_ms + later_ms < last_ms + RING.step_ms


def test_the_rings_cover_what_they_are_named_after():
    covered = [(ring.name, ring.step_ms * ring.slots) for ring in RINGS]
    assert covered == [("15m", 900_000), ("6h", 21_600_000), ("7d", 604_800_000)]


def test_a_point_of_another_turn_is_replaced():
    old = Point(0, {"lag:a": (1, 5.0, 5.0)})
    assert with_sample(old, RING, 40, {"lag:a": 3}) == Point(40, {"lag:a": (1, 3.0, 3)})
