"""Joins of the chaos runs: moves with visits of the same person, and a chain of what they give."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from tests.oracles.chain import Stage, Windows
from tests.oracles.join import JoinRules
from tests.support.chain import results_of
from tidemark import col, on_close, on_final
from tidemark.language.stream import Stream


class Join(NamedTuple):
    """``stages``: what follows the join; without one, only the rows of the join are published."""

    how: Any
    lower_ms: int
    upper_ms: int
    lateness_ms: int
    withdraws: bool
    stages: Sequence[Stage] = ()

    @property
    def rules(self) -> JoinRules:
        """The rules of the oracle."""
        return JoinRules(*self[:5])


def joins_of(joins: Sequence[Any]) -> list[Join]:
    """Return joins that may have been JSON."""
    return [Join._make((*others, stages_of(stages))) for *others, stages in joins]


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
        rows = left.join(
            right,
            within=(f"{join.lower_ms}ms", f"{join.upper_ms}ms"),
            how=join.how,
            allowed_lateness=f"{join.lateness_ms}ms",
            trigger=on_close() if join.withdraws else on_final(),
        )
        rows.to(join_name(number))
        if join.stages:
            values = rows.select("key", value=col("value").fill_null(0)).key_by("key")
            results_of(values, join.stages).to(f"{join_name(number)}-sums")
