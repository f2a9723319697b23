"""Window joins with drawn settings, over the logs of ``tests.support.joins.stream``."""

from collections.abc import Mapping, Sequence
from typing import cast

from hypothesis import strategies as st

from tests.oracles.aligned import Aligned
from tests.oracles.window_join import WindowRules
from tests.support.joins.stream import JOINED, KINDS, ORDERED, SIDES, ordered, over_sides
from tidemark.core.operators.joins.side import Kind
from tidemark.core.operators.joins.stream_join import StreamJoin
from tidemark.core.operators.operator import Operator
from tidemark.core.windows.window import AlignedWindows, Hopping

SIZES = ((4, 4), (10, 10), (30, 30), (10, 5), (12, 5), (9, 2), (1, 1))
"""Size and slide of windows, ms."""


@st.composite
def window_rules(draw: st.DrawFn) -> WindowRules:
    """Draw a window join."""
    size_ms, slide_ms = draw(st.sampled_from(SIZES))
    offset_ms = draw(st.integers(1 - slide_ms, slide_ms - 1))
    lateness_ms = draw(st.sampled_from((0, 0, 4, 12, 30)))
    withdraws = lateness_ms > 0 and draw(st.booleans())
    windows = Aligned(size_ms, slide_ms, offset_ms, lateness_ms, not withdraws)
    on = draw(st.sampled_from((None, None, ordered)))
    return WindowRules(draw(st.sampled_from(KINDS)), windows, withdraws, on)


def window_join(
    drawn: WindowRules,
    sides: Mapping[str, Sequence[str]] = SIDES,
    windows: AlignedWindows | None = None,
) -> Operator:
    """Return the operator of a window join; ``windows``: if they are not hopping windows."""
    if windows is None:
        spec = drawn.windows
        assert isinstance(spec, Aligned)
        windows = Hopping(spec.size_ms, spec.slide_ms, spec.offset_ms)
    body = StreamJoin(
        ("key",),
        *JOINED,
        cast(Kind, drawn.how),
        0,
        0,
        drawn.windows.allowed_lateness_ms,
        drawn.withdraws,
        ORDERED if drawn.on else None,
        max_pairs=drawn.max_pairs,
        windows=windows,
    )
    return over_sides(body, sides)
