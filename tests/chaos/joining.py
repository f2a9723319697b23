"""Joins of the chaos runs: moves with visits of the same person, and a chain of what they give."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

from tests.oracles import broadcast_join, table_join
from tests.oracles.aligned import Aligned
from tests.oracles.chain import Stage, Windows
from tests.oracles.join import JoinRules
from tests.oracles.versions import TableSpec
from tests.oracles.window_join import WindowRules
from tests.support.chain import results_of
from tidemark import col, hopping, on_close, on_final
from tidemark.core.operators.joins.side import Kind
from tidemark.core.operators.joins.table_join import TableKind
from tidemark.language.joins.joined_stream import JoinedStream
from tidemark.language.keyed import KeyedStream
from tidemark.language.stream import Stream

DELETED = 0
"""The value of a version that is a tombstone."""

BoundsKind = Literal["time", "first", "window", "table", "broadcast"]

KINDS: Mapping[BoundsKind, tuple[str, ...]] = {
    "time": get_args(Kind),
    "first": get_args(TableKind),
    "window": get_args(Kind),
    "table": get_args(TableKind),
    "broadcast": ("inner", "left", "semi", "anti"),
}
"""What ``how`` may be."""


class Bounds(NamedTuple):
    """Which rows of a key join.

    | kind        | ``low_ms``, ``high_ms``                                                  |
    |-------------|--------------------------------------------------------------------------|
    | "time"      | the bounds of the time of a right row, from that of the left row         |
    | "first"     | the same; each left row shows the partner with the least value           |
    | "window"    | slide and size of hopping windows                                        |
    | "table"     | 0, and how old a version may be; visits are the versions                 |
    | "broadcast" | the same; a row meets the versions of all keys that have its value       |
    """

    kind: BoundsKind
    low_ms: int
    high_ms: int

    @property
    def corrects(self) -> bool:
        """Whether results may be withdrawn."""
        return self.kind not in ("first", "broadcast")


class Join(NamedTuple):
    """``stages``: what follows the join; without one, only the rows of the join are published."""

    bounds: Bounds
    how: Any
    lateness_ms: int
    withdraws: bool
    stages: Sequence[Stage] = ()

    @property
    def rules(self) -> JoinRules:
        """The rules of the oracle, of a join by time."""
        low_ms, high_ms = self.bounds[1:]
        return JoinRules(self.how, low_ms, high_ms, self.lateness_ms, self.withdraws)

    @property
    def window_rules(self) -> WindowRules:
        """The rules of the oracle, of a join in windows."""
        slide_ms, size_ms = self.bounds[1:]
        windows = Aligned(size_ms, slide_ms, 0, self.lateness_ms, not self.withdraws)
        return WindowRules(self.how, windows, self.withdraws)

    def table_rules(self, left: str, right: str) -> table_join.Spec:
        """Return the rules of the oracle, of a join with a table; ``left``, ``right``: topics."""
        shared = self._rules_of_tables(left, right)
        return table_join.Spec(**vars(shared), on_close=self.withdraws)

    def broadcast_rules(self, left: str, right: str) -> broadcast_join.Spec:
        """Return the rules of the oracle, of a join with a broadcast table."""
        return broadcast_join.Spec(
            **vars(self._rules_of_tables(left, right)),
            condition="equal",
            on=lambda row, version: row[1] == version[1],
            max_pairs=1_000_000,
        )

    def _rules_of_tables(self, left: str, right: str) -> TableSpec:
        return TableSpec(
            (left,),
            (right,),
            self.how,
            self.bounds.high_ms,
            self.lateness_ms,
            "event_time",
            lambda value: value == DELETED,
        )


def joins_of(joins: Sequence[Any]) -> list[Join]:
    """Return joins that may have been JSON."""
    return [
        Join._make((Bounds(*bounds), *others, stages_of(stages)))
        for bounds, *others, stages in joins
    ]


def stages_of(chain: Sequence[Any]) -> tuple[Stage, ...]:
    """Return the stages of a chain that may have been JSON."""
    return tuple(Stage(Windows(*windows), *others) for windows, *others in chain)


def join_name(number: int) -> str:
    """Return the name of the output of a join; that of its chain ends with ``-sums``."""
    return f"join-{number}"


def publish(moves: Stream, visits: Stream, joins: Sequence[Any]) -> None:
    """End streams with the outputs of joins."""
    left, right = (
        stream.select("at", key=col("who"), value=col("v").fill_null(0)).key_by("key")
        for stream in (moves, visits)
    )
    for number, join in enumerate(joins_of(joins)):
        rows = _joined(left, right, join)
        rows.to(join_name(number))
        if join.stages:
            values = rows.select("key", value=col("value").fill_null(0)).key_by("key")
            results_of(values, join.stages).to(f"{join_name(number)}-sums")


def _joined(left: KeyedStream, right: KeyedStream, join: Join) -> JoinedStream:
    kind, low_ms, high_ms = join.bounds
    options: dict[str, Any] = {
        "how": join.how,
        "allowed_lateness": f"{join.lateness_ms}ms",
        "trigger": on_close() if join.withdraws else on_final(),
    }
    if kind in ("table", "broadcast"):
        deleted = col("value") == DELETED
        table = right.table(keep=f"{high_ms}ms", deleted=deleted, tombstones=False)
        if kind == "table":
            return left.join(table, **options)
        on = col("value") == col("value_right")
        return left.join(table.broadcast(), on=on, **options)
    if kind == "window":
        return left.join(right, window=hopping(f"{high_ms}ms", f"{low_ms}ms"), **options)
    rows = left.join(right, within=(f"{low_ms}ms", f"{high_ms}ms"), **options)
    return rows.first(by="value_right") if kind == "first" else rows
