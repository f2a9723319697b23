"""The results of a pattern as columns: matches and timeouts, with values of their rows."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import NamedTuple

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import AggregateFunction
from tidemark.core.aggregates.lists import unflattened
from tidemark.core.aggregates.stable_hash import mixed, stable_hashes
from tidemark.core.operators.identity import Ids, hex_texts, ids_of_pairs, ids_of_rows
from tidemark.core.operators.operator import Numbers
from tidemark.core.operators.patterns.findings import Findings
from tidemark.core.operators.patterns.partial import STEP_BITS
from tidemark.core.operators.patterns.step_rows import StepRows
from tidemark.core.operators.patterns.step_values import (
    OfRows,
    StepAggregates,
    StepValue,
    Value,
)
from tidemark.core.operators.ports import APPEND, ROWS, Port, RowTime, places, shown_key
from tidemark.core.operators.rows import EVENT_TIME_MS, ID
from tidemark.core.rows.byte_text import bytes_as_text, text_types
from tidemark.core.rows.keys import distinct_keys
from tidemark.core.state.blocks import lines_at, lines_or_null
from tidemark.core.time.segment import OFFSET, SOURCE, SUB_ROW

RULE = "rule"
"""Column of a result: the rule that found it, if patterns are rules."""

FIRST, LAST = "first", "last"
"""Names that no step of a rule has: the first and the last row of a result."""

MATCHED = "_rows"
"""Column of a result: its rows in order, with the step that each took and its raw record."""

_ROW = pl.Struct(
    {
        "step": pl.String(),
        "topic": pl.String(),
        "partition": pl.Int32(),
        "offset": pl.Int64(),
        "sub_row": pl.Int32(),
    }
)
_NUMBER = np.uint64(0x9E3779B97F4A7C15)


class _Flat(NamedTuple):
    """The rows of all results: the result that each is of, its step, and its columns."""

    result: Numbers
    step: Numbers
    rows: pl.DataFrame


@dataclass(frozen=True)
class MatchResults:
    """Makes results.

    ``steps``: names; ``values``: by name in a result; ``columns``: of a row; ``rule``: the type of
    RULE, None for patterns that are no rules.
    """

    key: tuple[str, ...]
    steps: tuple[str, ...]
    values: Mapping[str, StepValue]
    columns: Mapping[str, pl.DataType]
    rule: pl.DataType | None = None

    def port(self, name: str) -> Port:
        """Return the port of matches or timeouts: none lies behind the clock."""
        key = shown_key(self.key)
        return Port(
            name,
            ROWS,
            self.shown,
            key,
            message_key=key or (ID,),
            identity=(ID,),
            row_time=RowTime(EVENT_TIME_MS),
            values=(*self.values, MATCHED),
            mode=APPEND,
            instants=frozenset({EVENT_TIME_MS}),
            holds_ms=0,
        )

    @cached_property
    def shown(self) -> dict[str, pl.DataType]:
        """The columns of a result, with types."""
        key = {name: self.columns[name] for name in shown_key(self.key)}
        rule = {} if self.rule is None else {RULE: self.rule}
        own = text_types({**key, **rule, **self._types})
        return {ID: pl.String(), **own, MATCHED: pl.List(_ROW), EVENT_TIME_MS: pl.Int64()}

    @cached_property
    def _types(self) -> dict[str, pl.DataType]:
        """The types of the values."""
        made = {
            name: dtype
            for each in self._aggregates
            for name, dtype in each.aggregation.types.items()
        }
        return {
            name: self.columns[value.column] if isinstance(value, Value) else made[name]
            for name, value in self.values.items()
        }

    @cached_property
    def _aggregates(self) -> tuple[StepAggregates, ...]:
        """The aggregates, by the step of their rows."""
        by_step: dict[int | None, dict[str, AggregateFunction]] = {}
        for name, value in self.values.items():
            if isinstance(value, OfRows):
                by_step.setdefault(value.step, {})[name] = value.function
        return tuple(
            StepAggregates(step, "" if step is None else self.steps[step], functions, self.columns)
            for step, functions in by_step.items()
        )

    def frame(self, found: Findings, rows: StepRows, rule: object = None) -> pl.DataFrame:
        """Return results in the order of ``found``; ``rule``: that found them."""
        sizes = found.sizes
        if not sizes.size:
            return pl.DataFrame(schema=self.shown)
        flat = _Flat(
            np.repeat(np.arange(sizes.size), sizes),
            found.refs & (1 << STEP_BITS) - 1,
            rows.rows(found.refs >> STEP_BITS),
        )
        begins = np.searchsorted(flat.result, np.arange(sizes.size))
        values = self._values(flat, sizes.size)
        keys = lines_at(flat.rows[[*shown_key(self.key)]], begins).get_columns()
        ids = _ids(flat, begins)
        if self.rule is not None:
            rules = pl.Series(RULE, [rule], self.rule).new_from_index(0, sizes.size)
            keys, ids = [*keys, rules], _ids_of_rule(rules, ids)
        frame = pl.DataFrame(
            [
                hex_texts(ID, ids),
                *bytes_as_text(pl.DataFrame([*keys, *values.values()])),
                self._matched(flat, sizes.size),
                pl.Series(EVENT_TIME_MS, found.at_ms),
            ]
        )
        return frame[list(self.shown)]

    def _values(self, flat: _Flat, count: int) -> dict[str, pl.Series]:
        """Return the values of ``count`` results by name."""
        made = {
            name: self._column(name, value, flat, count)
            for name, value in self.values.items()
            if isinstance(value, Value)
        }
        for each in self._aggregates:
            of_step = flat.step >= 0 if each.step is None else flat.step == each.step
            rows = flat.rows.filter(pl.Series(of_step))
            found = each.values(rows, flat.result[of_step], count)
            made |= {column.name: column for column in found}
        return {name: made[name] for name in self.values}

    @staticmethod
    def _column(name: str, value: Value, flat: _Flat, count: int) -> pl.Series:
        """Return a column of one row of each result."""
        at = np.arange(flat.step.size)
        if value.step is not None:
            at = np.flatnonzero(flat.step == value.step)
        place = np.full(count, -1)
        place[flat.result[at[::-1] if value.first else at]] = at[::-1] if value.first else at
        return lines_or_null(flat.rows[[value.column]], place).to_series().alias(name)

    def _matched(self, flat: _Flat, count: int) -> pl.Series:
        """Return the rows of each result as a list."""
        sources, source = distinct_keys(flat.rows, (SOURCE,))
        of_source = _places_of(tuple(sources[SOURCE].to_list()))
        frame = pl.DataFrame(
            [
                pl.Series("step", [*self.steps])[flat.step],
                *(column[source] for column in of_source),
                flat.rows[OFFSET].alias("offset"),
                flat.rows[SUB_ROW].alias("sub_row"),
            ]
        )
        return unflattened(flat.result, frame.to_struct(MATCHED), count)


@lru_cache(maxsize=256)
def _places_of(sources: tuple[str, ...]) -> pl.DataFrame:
    """Return ``topic`` and ``partition`` of sources.  The rows of most results have the same."""
    column = pl.DataFrame({SOURCE: sources}, {SOURCE: pl.String()})
    return column.select(*places(pl.col(SOURCE), "topic", "partition"))


def _ids(flat: _Flat, begins: Numbers) -> Ids:
    """Return the identities of results: hashes of their rows, with the step and place of each."""
    ids = ids_of_rows(flat.rows)
    place = np.arange(flat.result.size) - begins[flat.result]
    salt = mixed((place << STEP_BITS | flat.step).view(np.uint64) * _NUMBER)
    high = np.add.reduceat(mixed(ids.high ^ salt), begins)
    low = np.add.reduceat(mixed(ids.low + salt), begins)
    return Ids(mixed(high), mixed(low))


def _ids_of_rule(rules: pl.Series, ids: Ids) -> Ids:
    """Return the identities of results with their rule: two rules may find the same rows."""
    hashes = stable_hashes(rules)
    return ids_of_pairs(Ids(hashes, hashes), ids)
