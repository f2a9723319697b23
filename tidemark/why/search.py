"""The search for records of a key and a time, from the raw topic to the sink."""

from tidemark.core.time.duration import duration_ms
from tidemark.plan.physical import OperatorPlan
from tidemark.runtime.client.schema_registry import writer_schemas
from tidemark.runtime.letters.selection import moment_ms
from tidemark.why.key_replay import KeyReplay, replayed
from tidemark.why.keys import partition_of, typed_key
from tidemark.why.missing import Fact, Missing
from tidemark.why.raw_trace import RawTrace
from tidemark.why.reading import Reading


def key_replay(reading: Reading, plan: OperatorPlan, key: str) -> KeyReplay:
    """Return the replay of a key, as a user types it, over what the log holds.

    Raises:
        ConfigurationError: the text is no key of the operator's log.
    """
    log = reading.plan.log_of(plan)
    typed = typed_key(key, log.key)
    return replayed(plan, typed, reading.segments(plan, partition_of(typed, log)))


def times_of(at: str, within: str, now_ms: int, named: tuple[str, str]) -> tuple[int, int]:
    """Return the range of event times of a search, as a user writes it, ms.

    ``at``: its begin, an instant or an age at ``now_ms``.  ``within``: its length, a duration.
    ``named``: what a user calls the two.

    Raises:
        ConfigurationError: ``at`` is neither.
        PipelineError: ``within`` is no duration.
    """
    of_at, of_within = named
    begin_ms = moment_ms(at, of_at, now_ms)
    assert begin_ms is not None
    return begin_ms, begin_ms + max(1, duration_ms(within, of_within))


def facts_of(
    reading: Reading,
    plan: OperatorPlan,
    key: str,
    times_ms: tuple[int, int],
    since_ms: int | None = None,
) -> list[Fact]:
    """Return what became of the records of a key with an event time in a range.

    Raw topics are read only if the log has no such row; ``since_ms``: only records written since.

    Raises:
        ConfigurationError: as ``key_replay``; or a registry is needed and cannot be asked.
    """
    replay = key_replay(reading, plan, key)
    found = Missing(reading, plan, replay)
    facts = [*found.rows(times_ms)]
    if facts:
        return facts
    writers = writer_schemas(reading.config, reading.plan)
    trace = RawTrace(reading.plan, plan.operator.streams, replay.key, key, times_ms, writers)
    return [*found.raw(trace, since_ms)]
