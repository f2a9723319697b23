"""Periods: from when until when a rule counts with one text, in a stretch of time."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

import polars as pl

from tidemark.core.operators.joins.version_runs import FROM
from tidemark.core.operators.joins.version_spans import UNTIL


class Period(NamedTuple):
    """Rows at ``from_ms`` or later and before ``until_ms`` meet a rule with this text."""

    rule: Any
    from_ms: int
    until_ms: int
    text: str


def periods_of(
    spans: pl.DataFrame, rule: str, text: str, before_ms: int, stop_ms: int
) -> Mapping[Any, Sequence[Period]]:
    """Return the periods of each rule in [before_ms, stop_ms), in order of time.

    ``spans``: of version_spans.py; ``rule``, ``text``: names of their columns.
    """
    near = spans.filter((pl.col(FROM) < stop_ms) & (pl.col(UNTIL) > before_ms))
    lines = near.sort(rule, FROM).select(
        rule, pl.col(FROM).clip(before_ms), pl.col(UNTIL).clip(None, stop_ms), text
    )
    found = (Period(*line) for line in lines.iter_rows())
    return {name: _joined(each) for name, each in groupby(found, attrgetter("rule"))}


def _joined(periods: Iterator[Period]) -> list[Period]:
    """Return periods, of which those with one text that follow each other are one."""
    joined: list[Period] = []
    for each in periods:
        last = joined[-1] if joined else None
        if last is not None and (last.until_ms, last.text) == (each.from_ms, each.text):
            joined[-1] = last._replace(until_ms=each.until_ms)
        else:
            joined.append(each)
    return joined
