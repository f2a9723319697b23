"""The operator of a join: the pairs of rows of two streams of one log.

See docs/semantics.md, "Joins".
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

import polars as pl

from tidemark.core.aggregates.aggregate import Aggregation
from tidemark.core.operators.joins.broadcast.operator import BroadcastJoin
from tidemark.core.operators.joins.gathering_join import First, Gathering, GatheringJoin
from tidemark.core.operators.joins.sessions.operator import SessionJoin
from tidemark.core.operators.joins.side import Side
from tidemark.core.operators.joins.stream_join import StreamJoin
from tidemark.core.operators.joins.table_join import TableJoin
from tidemark.core.operators.operator import Operator
from tidemark.core.operators.ports import DEAD, ROWS, Input
from tidemark.core.rows.copies import COPY
from tidemark.core.rows.expression import whole_text
from tidemark.core.rows.stateless import StatelessGraph
from tidemark.core.rows.tombstones import TOMBSTONE, WithTombstones
from tidemark.core.time.duration import duration_text
from tidemark.core.windows.window import Session
from tidemark.errors import PipelineError
from tidemark.plan.broadcast_stage import BroadcastStage
from tidemark.plan.columns_read import columns_of
from tidemark.plan.dataflow import Dataflow, output_topics
from tidemark.plan.logical import (
    MAX_PAIRS,
    SIDES,
    AnyJoinStage,
    JoinStage,
    Node,
    RulesStage,
    TableStage,
)
from tidemark.plan.outputs import AnyOutput, JoinOutput, PatternOutput, advances
from tidemark.plan.physical import OperatorPlan, PortPlan, StreamPlan
from tidemark.plan.static_table import KEEP_MS
from tidemark.plan.texts import aggregates_text, columns_text


def join_operator(
    dataflow: Dataflow,
    output: JoinOutput,
    streams: Sequence[StreamPlan],
    log: str,
    used: Collection[str],
) -> OperatorPlan:
    """Return the operator that joins two streams.

    ``log``: the topic of both.  ``used``: the columns of results that are published or go on.
    """
    stage = output.stage
    results, _, changelog = output_topics(dataflow.name, output.name)
    kept = _kept(stage, used)
    body = join_body(stage, kept, output.name)
    operator = Operator(
        output.name,
        tuple(
            Input((each.name,), each.key, each.columns, each.topics, side)
            for side, each in zip(SIDES, streams, strict=True)
        ),
        body,
        reach_ms(stage) + stage.allowed_lateness_ms + 1,
        advances=advances(output),
    )
    topics = {ROWS: "" if output.results else results, DEAD: dataflow.dead_letters}
    ports = tuple(
        PortPlan(port, topics.get(port.kind, f"{results}.{port.name}"), output.format)
        for port in operator.outputs
    )
    left, right = streams
    return OperatorPlan(
        service="joins",
        log=log,
        operator=operator,
        ports=ports,
        changelog=changelog,
        dead_letters=dataflow.dead_letters,
        description=join_text(stage),
        state_signature={
            "left stream": left.name,
            "right stream": right.name,
            "key": columns_text(left.key, left.columns),
            **_table_key(stage, right),
            "join": join_text(stage),
            **{
                f"{side} columns": columns_text(shown, stream.columns)
                for side, shown, stream in zip(SIDES, kept, streams, strict=True)
            },
        },
        reads=frozenset(_reads(stage, kept)),
    )


def _table_key(stage: AnyJoinStage, table: StreamPlan) -> dict[str, str]:
    """Return the key of a broadcast table, for the state signature; others have that of rows."""
    if not isinstance(stage, BroadcastStage):
        return {}
    return {"table key": columns_text(table.key, table.columns)}


def join_body(
    stage: AnyJoinStage, shown: Sequence[Mapping[str, str]], operator: str
) -> StreamJoin | SessionJoin | TableJoin | BroadcastJoin:
    """Return the body of a join; ``shown``: the columns of each side that its state keeps."""
    left, right = (
        Side(side, node.columns, names)
        for side, (node, _), names in zip(SIDES, stage.inputs, shown, strict=True)
    )
    if isinstance(stage, BroadcastStage):
        return BroadcastJoin(
            stage.key,
            stage.table_key,
            left,
            right,
            stage.how,
            stage.keep_ms,
            stage.condition,
            stage.allowed_lateness_ms,
            stage.wait,
            _deleted(stage),
            stage.max_rows,
            stage.max_pairs,
            operator,
        )
    if isinstance(stage, TableStage):
        return TableJoin(
            stage.key,
            left,
            right,
            "left" if stage.how == "left" else "inner",
            stage.keep_ms,
            stage.allowed_lateness_ms,
            stage.wait,
            stage.on_close,
            _deleted(stage),
        )
    self_join = stage.inputs[0] == stage.inputs[1]
    if isinstance(stage.windows, Session):
        return SessionJoin(
            stage.key,
            left,
            right,
            stage.how,
            stage.windows,
            stage.allowed_lateness_ms,
            stage.condition,
            stage.max_pairs,
            self_join,
        )
    join = StreamJoin(
        stage.key,
        left,
        right,
        stage.how,
        stage.lower_ms,
        stage.upper_ms,
        stage.allowed_lateness_ms,
        stage.on_close,
        stage.condition,
        stage.upper,
        stage.max_pairs,
        self_join=self_join,
        operator=operator,
        windows=stage.windows,
    )
    return join if stage.gathering is None else GatheringJoin.of(join, stage.gathering)


def _deleted(stage: TableStage) -> pl.Expr | None:
    return deleted_versions(stage.inputs[1].node, stage.deleted)


def deleted_versions(table: Node, deleted: pl.Expr | None) -> pl.Expr | None:
    """Return which versions of a table delete their keys; ``deleted``: as users say."""
    if not has_tombstones(table):
        return deleted
    mark = pl.col(TOMBSTONE)
    return mark if deleted is None else mark | deleted.fill_null(value=False)


def has_tombstones(table: Node) -> bool:
    """Return whether records without a value delete versions of a table."""
    return TOMBSTONE in table.columns


def table_sources(outputs: Iterable[AnyOutput]) -> frozenset[Node]:
    """Return the sources whose rows are versions of tables, without those of stages before them."""
    return frozenset(
        node
        for output in outputs
        if isinstance(output, JoinOutput | PatternOutput)
        if isinstance(output.stage, TableStage | RulesStage)
        for node in output.stage.inputs[1].node.ancestors()
        if node.source is not None
    )


def require_one_key(graph: StatelessGraph, source: str) -> None:
    """Raise PipelineError if tombstones of a source would delete the keys of different columns."""
    tables = (step.operator for step in graph.steps if isinstance(step.operator, WithTombstones))
    keys = {tuple(sorted(table.key.values())) for table in tables}
    if len(keys) > 1:
        found = " and ".join(", ".join(key) for key in sorted(keys))
        raise PipelineError(
            f"{source}: tables by {found}, and the Kafka key of a record without a value is one of "
            "them; pass tombstones=False to table() for the others"
        )


def reach_ms(stage: AnyJoinStage) -> int:
    """Return how long after a row its results may be, without the allowed lateness."""
    if isinstance(stage, TableStage):
        return 0
    if stage.windows is not None:
        return stage.windows.longest_ms
    before_ms, after_ms = max(-stage.lower_ms, 0), max(stage.upper_ms, 0)
    # A right row is shown by a left row after it, when that is due.
    return before_ms + after_ms if stage.gathering is not None else max(before_ms, after_ms)


def _kept(stage: AnyJoinStage, used: Collection[str]) -> tuple[dict[str, str], ...]:
    """Return the columns of each side that results show, or that expressions over pairs name."""
    left, right = stage.shown
    named: set[str] = set()
    of_right = {*used}
    if isinstance(stage, JoinStage | BroadcastStage):
        named |= {*_roots(stage.condition)}
    if isinstance(stage, JoinStage):
        if isinstance(stage.gathering, First):
            named |= {*_roots(stage.gathering.by)}
        elif stage.gathering is not None:
            named |= columns_of(stage.gathering)
            of_right = set()  # results show aggregates in their place
    return _shown(left, named | {*used}), _shown(right, named | of_right)


def _shown(names: Mapping[str, str], needed: Collection[str]) -> dict[str, str]:
    return {column: name for column, name in names.items() if name in needed}


def _reads(stage: AnyJoinStage, kept: Sequence[Mapping[str, str]]) -> set[str]:
    """Return the columns of both streams that results depend on."""
    own = _deleted(stage) if isinstance(stage, TableStage) else stage.upper
    return {
        *stage.key,
        *stage.inputs[1].key,
        *[COPY] * isinstance(stage, BroadcastStage),
        *_roots(own),
        *(column for shown in kept for column in shown),
    }


def _roots(expression: pl.Expr | None) -> list[str]:
    return [] if expression is None else expression.meta.root_names()


def _is_static(stage: TableStage) -> bool:
    return stage.keep_ms == KEEP_MS


def bounds_name(stage: AnyJoinStage) -> str:
    """Return the bounds as a part of the name of a stage."""
    if isinstance(stage, TableStage):
        kind = "broadcast-table" if isinstance(stage, BroadcastStage) else "table"
        return kind if _is_static(stage) else f"{kind}-keep-{duration_text(stage.keep_ms)}"
    if stage.windows is not None:
        return stage.windows.label
    if stage.relation == "keep":
        return f"keep-{duration_text(stage.upper_ms)}"
    upper = "to" if stage.upper is None else "to-at-most"
    return f"{_distance(stage.lower_ms)}-{upper}-{_distance(stage.upper_ms)}"


def gathering_name(stage: AnyJoinStage) -> tuple[str, ...]:
    """Return what left rows show of their partners, as parts of the name of a stage."""
    if isinstance(stage, TableStage) or stage.gathering is None:
        return ()
    if isinstance(stage.gathering, First):
        return ("first",)
    return ("-".join(stage.gathering.aggregates),)


def _distance(ms: int) -> str:
    """Return where a right row lies, in characters of names."""
    return f"{duration_text(abs(ms))}-{'before' if ms < 0 else 'after'}" if ms else "same-time"


def join_text(stage: AnyJoinStage) -> str:
    """Return a join with its options."""
    text = f"{stage.how} join {bounds_text(stage)}"
    if isinstance(stage, TableStage):
        if stage.deleted is not None and not _is_static(stage):
            text += f", deleted {whole_text(stage.deleted)}"
        if has_tombstones(stage.inputs[1].node):
            text += ", tombstones"
        if stage.wait == "arrival":
            text += ", on arrival"
    if isinstance(stage, JoinStage | BroadcastStage) and stage.condition is not None:
        text += f", on {whole_text(stage.condition)}"
    if stage.allowed_lateness_ms:
        text += f", allowed lateness {duration_text(stage.allowed_lateness_ms)}"
    if stage.on_close:
        text += ", on close"
    if isinstance(stage, JoinStage | BroadcastStage) and stage.max_pairs != MAX_PAIRS:
        text += f", at most {stage.max_pairs:,} pairs a row"
    if isinstance(stage, JoinStage):
        text += _gathering_text(stage.gathering)
    return text


def _gathering_text(gathered: Gathering | None) -> str:
    if gathered is None:
        return ""
    if isinstance(gathered, Aggregation):
        return f", for each left row {aggregates_text(gathered)}"
    return ", first" if gathered.by is None else f", first by {whole_text(gathered.by)}"


def bounds_text(stage: AnyJoinStage) -> str:
    """Return the times of the right rows that a left row may join, from its own time on."""
    if isinstance(stage, TableStage):
        kind = "broadcast table" if isinstance(stage, BroadcastStage) else "table"
        if _is_static(stage):
            return f"with a static {kind}"
        return f"with a {kind}, keep {duration_text(stage.keep_ms)}"
    if stage.windows is not None:
        return f"in {stage.windows.label}"
    if stage.relation == "keep":
        return f"keep {duration_text(stage.upper_ms)}"
    upper = duration_text(stage.upper_ms)
    if stage.upper is not None:
        upper = f"{whole_text(stage.upper)}, max {upper}"
    return f"within ({duration_text(stage.lower_ms)}, {upper})"
