"""How far the sources of tables are read before their watermarks count.

A new partition is loaded up to the end that it had when it was first assigned.  The metadata of the
committed offset keeps this end, so a successor goes on to the same one.  Loading ends with a
commit: the rows that it writes are loaded, too, and the next mark has a watermark.  So the rows of
a mark were either all loaded or all read later, and a replay knows which rows to load.  See
docs/semantics.md, "Loading".
"""

from confluent_kafka.admin import AdminClient

from tidemark.core.time.segment import NEVER_MS
from tidemark.ingest.ingest import Progress
from tidemark.partition import Partition
from tidemark.plan.physical import Plan
from tidemark.runtime.client.consumer import LATEST, offsets


class Loading:
    """Finds the ends up to which sources are loaded."""

    def __init__(self, admin: AdminClient, plan: Plan) -> None:
        """Prepare; no request is sent yet."""
        self._admin, self._plan = admin, plan

    def until(
        self, source: Partition, progress: Progress, shift: int = 0, known: int | None = None
    ) -> int | None:
        """Return the offset in the log up to which a source is loaded; None without a table.

        ``progress``: of the source, and ``known``: the offset that was committed, if any.  A source
        with a watermark and without such an offset was read before a table read it.
        """
        if not self._plan.source_of(source.topic).loads:
            return None
        if known is not None or progress.watermark_ms != NEVER_MS:
            return known
        return offsets(self._admin, [source], LATEST)[source] + shift
