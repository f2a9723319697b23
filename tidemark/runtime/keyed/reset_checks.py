"""Checks of a reset that begins at the first segment of a log, before it changes anything.

See docs/operations.md, "Reset".  A log may have rows that the pipeline cannot read, or may lack its
beginning.  Only the raw topics help then: a reset of the whole pipeline reads them.
"""

from collections.abc import Iterable, Mapping

from confluent_kafka.admin import AdminClient

from tidemark.core.time.row_watermarks import rows_in_log_order
from tidemark.core.time.segment import Segment
from tidemark.errors import ConfigurationError, UnreadableRowsError
from tidemark.partition import Partition
from tidemark.plan.operators.stages import readers
from tidemark.plan.physical import OperatorPlan, Plan
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.offline_group import committed_offsets
from tidemark.runtime.client.progress import SourceProgress, decode
from tidemark.runtime.client.range_reader import read
from tidemark.runtime.client.topics import partition_counts
from tidemark.runtime.config import Config
from tidemark.runtime.keyed.fresh_start import partitions_of
from tidemark.runtime.keyed.lost_rows import FirstMarks, delays_ms, lost_of_stages
from tidemark.runtime.service.stats import instant_text
from tidemark.serde.segments import segment_at

_FIRST = 100  # offsets at the beginning of a log partition that are looked at
_LAST = 10
_WAIT_S = 60.0

_Segments = Mapping[Partition, list[tuple[int, Segment]]]


def require_no_hand_over(config: Config, admin: AdminClient, plan: Plan) -> None:
    """Require that no hand-over has stopped ingest: its logs may be half written.

    Raises:
        ConfigurationError: one is under way.
    """
    raw = [topic for topic in partition_counts(admin) if any(s.reads(topic) for s in plan.sources)]
    group = plan.group("ingest")
    for each in committed_offsets(config, group, partitions_of(admin, raw), _WAIT_S):
        where = f"{each.topic}/{each.partition}"
        if each.metadata and decode(each.metadata, SourceProgress, where).handing_over:
            raise ConfigurationError(
                f"{where}: a hand-over from Spark is under way, which a reset of one service or "
                "operator cannot give up: 'tidemark reset PIPELINE --delete-results' does"
            )


def require_resettable(
    config: Config,
    admin: AdminClient,
    plan: Plan,
    operators: Iterable[OperatorPlan],
    logs: Iterable[Partition],
    *,
    delete_results: bool,
) -> None:
    """Require that operators can start afresh from their logs.

    ``logs``: the partitions of the logs.  ``delete_results``: whether the results are deleted, so
    that the logs must have all rows.

    Raises:
        ConfigurationError: a log has unreadable rows, or lacks rows of results to delete.
    """
    begins, ends = offsets(admin, logs, EARLIEST), offsets(admin, logs, LATEST)
    firsts = _segments(
        config, {at: (begin, min(begin + _FIRST, ends[at])) for at, begin in begins.items()}
    )
    lasts = _segments(
        config, {at: (max(ends[at] - _LAST, begin), ends[at]) for at, begin in begins.items()}
    )
    for each in operators:
        for at in begins:
            if each.log == at.topic:
                _require_readable(each, [*firsts[at][:1], *lasts[at][-1:]])
                if delete_results:
                    _require_whole(plan, each, at, firsts[at])


def require_no_readers(plan: Plan, operators: Iterable[OperatorPlan]) -> None:
    """Require that no other operator reads the results of operators that start afresh.

    The logs hold their earlier results, which those readers have taken.

    Raises:
        ConfigurationError: some operators read them.
    """
    for each in operators:
        names = readers(plan, each.name)
        if names:
            raise ConfigurationError(
                f"operator {each.name!r} feeds {', '.join(map(repr, names))}, whose log holds "
                "its earlier results: it cannot start afresh alone. 'tidemark reset PIPELINE "
                "--delete-results' computes everything from the raw topics, and 'tidemark replay "
                "PIPELINE --into-live --delete-results' from the logs"
            )


def oldest_ms(config: Config, admin: AdminClient, logs: Iterable[Partition]) -> dict[str, int]:
    """Return the broker's time of the first record of topics, in ms UTC, for those with records.

    ``logs``: the partitions of the topics.
    """
    begins, ends = offsets(admin, logs, EARLIEST), offsets(admin, logs, LATEST)
    ranges = {at: (begin, min(begin + _LAST, ends[at])) for at, begin in begins.items()}
    found: dict[str, int] = {}
    for message in read(config, ranges):
        topic, at_ms = message.topic() or "", int(message.timestamp()[1])
        found[topic] = min(at_ms, found.get(topic, at_ms))
    return found


def _segments(config: Config, ranges: Mapping[Partition, tuple[int, int]]) -> _Segments:
    found: dict[Partition, list[tuple[int, Segment]]] = {at: [] for at in ranges}
    for message in read(config, ranges):
        at = Partition(message.topic() or "", message.partition() or 0)
        offset = message.offset() or 0
        found[at].append((offset, segment_at(at, offset, message.value() or b"")))
    return found


def _require_readable(plan: OperatorPlan, segments: Iterable[tuple[int, Segment]]) -> None:
    for _, segment in segments:
        for side in plan.operator.inputs:
            try:
                rows_in_log_order([segment], side.streams, side.columns)
            except UnreadableRowsError as error:
                raise ConfigurationError(
                    f"operator {plan.name!r} cannot start afresh from its log: {error}. Undo the "
                    "change, or compute everything from the raw topics: 'tidemark reset PIPELINE "
                    "--delete-results'"
                ) from error


def _require_whole(
    plan: Plan, operator: OperatorPlan, at: Partition, segments: Iterable[tuple[int, Segment]]
) -> None:
    marks = FirstMarks(delays_ms(plan, operator))
    for _, segment in segments:
        lost_ms = marks.lost_until_ms(segment)
        lost = lost_of_stages(marks.lost_stages, operator.operator.sources)
        if lost_ms is not None:
            lost = f"rows with event times up to {instant_text(lost_ms)}"
        if lost:
            raise ConfigurationError(
                f"{at} lacks {lost}, so operator {operator.name!r} cannot make their results "
                "again. Leave out --delete-results, or compute everything from the raw topics: "
                "'tidemark reset PIPELINE --delete-results'"
            )
