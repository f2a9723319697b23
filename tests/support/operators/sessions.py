"""Sessions with drawn settings; rows with a gap of their own; what a sink holds of the panes."""

from dataclasses import replace

import polars as pl
from hypothesis import strategies as st

from tests.oracles.aligned import Pane
from tests.oracles.session import Spec, own_gap
from tests.support.logs import COLUMNS
from tests.support.running import AGGREGATION, over
from tidemark.core.operators.sessions.operator import AFTER_MERGING, STRICT, SessionAggregate
from tidemark.core.windows.trigger import on_close, on_final
from tidemark.core.windows.window import Session


def operator(spec, topics):
    columns = {**COLUMNS, **({"gap": pl.Int64()} if spec.own_gaps else {})}
    body = SessionAggregate(
        Session(25, "gap") if spec.own_gaps else Session(spec.gap_ms),
        AGGREGATION,
        ("key",),
        columns,
        spec.allowed_lateness_ms,
        on_final() if spec.on_final else on_close(),
        STRICT if spec.strict else AFTER_MERGING,
    )
    return over(topics, body, columns)


def specs(strict=(False, True)):
    gaps, lateness = st.sampled_from((1, 4, 10, 25)), st.sampled_from((0, 3, 10, 40))
    return st.builds(Spec, gaps, lateness, st.sampled_from(strict), st.booleans(), st.booleans())


def with_gaps(segments):
    """Give every row the gap that the oracle makes of its value."""
    return [replace(s, streams={n: gapped(f) for n, f in s.streams.items()}) for s in segments]


def gapped(rows):
    gaps = [own_gap(value) for value in rows["value"]]
    return rows.with_columns(pl.Series("gap", gaps, pl.Int64()))


def view(made):
    """What a sink holds: the highest revision, gone once it is withdrawn; without ``final``."""
    seen: dict[tuple[str | None, int], Pane] = {}
    for pane in made.panes:
        at = pane.key, pane.start
        if pane.retracted:
            seen.pop(at, None)
        elif at not in seen or pane.revision > seen[at].revision:
            seen[at] = pane._replace(final=False)
    return seen
