"""The page's search for a record: what ``why missing`` finds, with a bound on what it reads."""

from collections.abc import Mapping

from confluent_kafka.admin import AdminClient

from tidemark.errors import ConfigurationError
from tidemark.monitor.holders import Json
from tidemark.plan.physical import Plan
from tidemark.runtime.client.recorded_program import placed_plan
from tidemark.runtime.config import Config
from tidemark.runtime.wall_clock import now_ms
from tidemark.why.reading import Bound, Reading, chosen_operator
from tidemark.why.search import facts_of, times_of

MOST_OFFSETS, MOST_BYTES = 20_000, 64 * 2**20
"""The most that a search reads: offsets of each partition, and bytes of all partitions."""

_BEFORE_MS = 60_000


class RecordSearch:
    """Finds records of a key and a time, as ``tidemark why missing`` does."""

    def __init__(self, config: Config, admin: AdminClient, plan: Plan) -> None:
        """``plan``: of the pipeline."""
        self._config, self._admin, self._plan = config, admin, plan

    def find(self, asked: Mapping[str, str]) -> Json:
        """Return the facts, and which parts of partitions were not read.

        ``asked``: ``operator``, ``key``, ``at`` (an instant), and ``within``, by default 1 s.

        Raises:
            ConfigurationError: a value of ``asked`` is missing or wrong.
            PipelineError: ``within`` is no duration.
        """
        at, key = asked.get("at", ""), asked.get("key", "")
        if not key or not at:
            raise ConfigurationError("name a key and a time, such as 2026-03-01T12:00:00Z")
        within = asked.get("within") or "1s"
        begin_ms, end_ms = times_of(at, within, now_ms(), ("time", "within"))
        plan = placed_plan(self._config, self._admin, self._plan)
        bound = Bound(MOST_OFFSETS, MOST_BYTES, begin_ms - _BEFORE_MS)
        reading = Reading(self._config, self._admin, plan, bound)
        operator = chosen_operator(plan, asked.get("operator") or None)
        facts = facts_of(reading, operator, key, (begin_ms, end_ms))
        return {"operator": operator.name, "facts": facts, "unread": reading.unread}
