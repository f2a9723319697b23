"""Which marks of silence ingest writes: few, and soon enough (docs/semantics.md, "Silence").

1. The first mark of a source is due when the source becomes idle.  Each further one is due when the
   silence has grown by a tenth, until no window can be open.  So their number grows with the
   logarithm of the silence, and what silence publishes comes at most a tenth later.
2. One segment speaks for all sources.  It has a mark of each source that is past half of its way
   to the next one.  So sources that fall silent at different times are marked together from then
   on, and marks beside rows of other sources need no segment of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from tidemark.core.time.watermark import Bounded
from tidemark.partition import Partition
from tidemark.plan.physical import Plan, SourcePlan

_SHARE = 10  # a mark is due when the silence has grown by a tenth


@dataclass(frozen=True, slots=True)
class Silence:
    """How long a source is silent, ms: ``logged_ms`` by its last mark, 0 without, and as known."""

    logged_ms: int
    lasted_ms: int


def due_ms(source: SourcePlan, logged_ms: int, horizon_ms: int) -> int | None:
    """Return the silence at which the next mark of a source is due; None if no more is needed.

    A silence that has lasted for ``horizon_ms``, of the plan, has closed every window of a bounded
    watermark.  Another watermark may be any time behind the rows, so its marks never end.
    """
    if logged_ms == 0:
        return source.idle_after_ms
    if (source.waits and not source.recorded) or source.static is not None:
        return None
    if logged_ms < horizon_ms:
        return logged_ms + max(1, logged_ms // _SHARE)
    return None if isinstance(source.watermark, Bounded) else 2 * logged_ms


def to_mark(
    silences: Mapping[Partition, Silence], plan: Plan, *, is_written: bool
) -> list[Partition]:
    """Return the silent sources that the next segment has marks of.

    ``is_written``: whether a segment will be written anyway.  If not, the result is empty until the
    mark of some source is due.
    """
    horizon_ms = plan.horizon_ms
    found, is_due = [], is_written
    for partition, silence in silences.items():
        at_ms = due_ms(plan.source_of(partition.topic), silence.logged_ms, horizon_ms)
        if at_ms is None:
            continue
        is_due = is_due or silence.lasted_ms >= at_ms
        first = silence.logged_ms == 0
        half_ms = at_ms if first else silence.logged_ms + (at_ms - silence.logged_ms + 1) // 2
        if silence.lasted_ms >= half_ms:
            found.append(partition)
    return found if is_due else []
