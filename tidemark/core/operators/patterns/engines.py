"""What rows and timers decide: partial matches from the state, through one of two engines.

Columns take the keys of a pattern of which each partial match has one row (one_row.py).  The
automaton takes all other keys, row by row (key_runs.py).  Both take and leave the same state.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import ROWS
from tidemark.core.operators.operator import Mask, Numbers
from tidemark.core.operators.patterns.automaton import Automaton
from tidemark.core.operators.patterns.conditions import Conditions
from tidemark.core.operators.patterns.findings import Findings
from tidemark.core.operators.patterns.key_rows import KeyPartials, KeyRows, used_rows
from tidemark.core.operators.patterns.key_runs import run_keys
from tidemark.core.operators.patterns.one_row import OneRowPattern
from tidemark.core.operators.patterns.pattern import Pattern
from tidemark.core.operators.patterns.state import FACTS, FIRST, PARTIAL, Matching
from tidemark.core.operators.patterns.step_rows import StepRows
from tidemark.core.state.blocks import lines_at
from tidemark.core.state.keyed_lines import Hashes, Lines, keys_of
from tidemark.core.state.line_table import LineMatches
from tidemark.core.time.segment import EVENT_TIME


@dataclass(frozen=True)
class Engines:
    """The engines of a pattern.

    Args:
        automaton: takes every pattern.
        conditions: of the pattern.
        key: names of the key columns.
        columns: the pattern for the engine in columns, None if that cannot take it.
    """

    automaton: Automaton
    conditions: Conditions
    key: tuple[str, ...]
    columns: OneRowPattern | None

    @classmethod
    def of(
        cls,
        pattern: Pattern,
        max_partial: int,
        key: tuple[str, ...],
        columns: Mapping[str, pl.DataType],
    ) -> "Engines":
        """Return the engines of a pattern over rows with these columns."""
        automaton = Automaton(pattern, max_partial)
        conditions = Conditions(pattern, columns)
        return cls(automaton, conditions, key, OneRowPattern.of(automaton))

    def fitting(self, rows: pl.DataFrame) -> tuple[pl.DataFrame, Numbers]:
        """Return the rows that may change a match, each with the bits of its conditions."""
        bits = self.conditions.bits(rows)
        if self.automaton.pattern.counts_every_row:
            return rows, bits
        fits = np.flatnonzero(bits)
        return lines_at(rows, fits), bits[fits]

    def findings_until(
        self, until_ms: int, rows: pl.DataFrame, bits: Numbers, matching: Matching
    ) -> Findings:
        """Return what rows and the timers before ``until_ms`` decide, in order.

        ``rows``, ``bits``: what ``fitting`` returns for the rows of all keys before ``until_ms``.
        The rows are in order, and none was taken before.
        """
        over = matching.partial.pop_due(until_ms)
        own = rows[list(self.key)]
        keys, hashes, key_of = keys_of(own if over is None else pl.concat([own, over]), self.key)
        lines = matching.partial.find(keys, hashes)
        is_open = np.zeros(hashes.size, np.bool_)
        is_open[lines.key] = True
        used = used_rows(self.automaton, bits, key_of[: rows.height], is_open)
        places = matching.rows.add(lines_at(rows, used))
        taken = KeyRows(key_of[used], places, rows[EVENT_TIME].to_numpy()[used], bits[used])
        lists = matching.partial.partials(lines.slot)
        stored = KeyPartials(lines.key, lines.facts[FIRST], lists)
        is_due = np.zeros(hashes.size, np.bool_)
        is_due[key_of[rows.height :]] = True
        is_due[taken.key] = True
        touched = is_due[lines.key]
        findings, left = self.run(taken, stored.where(touched), until_ms, matching.rows)
        _keep(left, keys, hashes, lines.where(touched), matching)
        return findings

    def run(
        self, rows: KeyRows, stored: KeyPartials, until_ms: int, step_rows: StepRows
    ) -> tuple[Findings, KeyPartials]:
        """Return what rows and the timers before ``until_ms`` decide, and what partials are left.

        ``stored``: of the keys before the rows.  ``step_rows``: all rows of both.
        """
        if self.columns is None:
            return self._run_automaton(rows, stored, until_ms, step_rows)
        ambiguous = np.unique(rows.key[self.columns.has_ambiguous(rows)])
        if not ambiguous.size:
            return self.columns.run(rows, stored, until_ms)
        in_columns = ~np.isin(rows.key, ambiguous), ~np.isin(stored.key, ambiguous)
        found, left = self.columns.run(*_where(rows, stored, *in_columns), until_ms)
        others = _where(rows, stored, *(~mask for mask in in_columns))
        more_found, more_left = self._run_automaton(*others, until_ms, step_rows)
        return Findings.joined([found, more_found]), KeyPartials.joined([left, more_left])

    def _run_automaton(
        self, rows: KeyRows, stored: KeyPartials, until_ms: int, step_rows: StepRows
    ) -> tuple[Findings, KeyPartials]:
        return run_keys(self.automaton, self.conditions, rows, stored, until_ms, step_rows)


def _where(
    rows: KeyRows, stored: KeyPartials, row_mask: Mask, key_mask: Mask
) -> tuple[KeyRows, KeyPartials]:
    return rows.where(row_mask), stored.where(key_mask)


def _keep(
    left: KeyPartials,
    keys: pl.DataFrame,
    hashes: Hashes,
    lines: LineMatches,
    matching: Matching,
) -> None:
    """Put the partial matches of keys into the state; ``lines``: theirs before."""
    facts = np.empty(left.key.size, FACTS)
    facts[ROWS], facts[FIRST] = 1, left.first_ms
    frame = pl.DataFrame([pl.Series(ROWS, facts[ROWS]), left.lists.alias(PARTIAL)])
    at: Numbers = left.key
    matching.partial.replace(lines, Lines(lines_at(keys, at), hashes[at], facts, frame))
    is_gone = np.ones(hashes.size, np.bool_)
    is_gone[at] = False
    matching.partial.end(lines_at(keys, lines.key[is_gone[lines.key]]))
