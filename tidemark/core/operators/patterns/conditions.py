"""Conditions of a pattern as columns: the bits of rows, and conditions on earlier rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from tidemark.core.operators.operator import Mask, Numbers
from tidemark.core.operators.patterns.key_rows import KeyRows
from tidemark.core.operators.patterns.key_run import Question
from tidemark.core.operators.patterns.near import NOTHING_NEAR, NearAnswers, Pairs, near_pairs
from tidemark.core.operators.patterns.partial import Refs, place_of, step_of
from tidemark.core.operators.patterns.pattern import Pattern, Step
from tidemark.core.operators.patterns.step_rows import StepRows
from tidemark.core.rows.probe import FAILURES
from tidemark.core.rows.row_values import row_values
from tidemark.core.state.blocks import lines_at, lines_or_null

_NO_PLACE = -1
_FITS = "@fits"


@dataclass(frozen=True)
class Conditions:
    """The conditions of a pattern, for rows with these columns."""

    pattern: Pattern
    columns: Mapping[str, pl.DataType]

    def fits(self, rows: pl.DataFrame) -> Mask:
        """Mark the rows that fulfil a condition."""
        own = rows[list(self.columns)]
        found = _evaluated([pl.any_horizontal(*self._truths).alias(_FITS)], own)
        return self.bits(rows) != 0 if found is None else _mask(found[0])

    def bits(self, rows: pl.DataFrame) -> Numbers:
        """Return the bits of each row; a condition that is null or fails does not hold."""
        bits = np.zeros(rows.height, np.int64)
        own = rows[list(self.columns)]
        for number, holds in enumerate(holding(self._truths, own)):
            bits |= holds.astype(np.int64) << number
        return bits

    @cached_property
    def _truths(self) -> Sequence[pl.Expr]:
        return truths_of(self.pattern.conditions)

    def answers(self, asked: Sequence[Question], rows: StepRows) -> list[bool]:
        """Return whether the condition on earlier rows holds for each question."""
        found = [False] * len(asked)
        for number, step in enumerate(self.pattern.steps):
            some = [at for at, each in enumerate(asked) if each.step == number]
            if some and step.on is not None:
                holds = self._holds(step, step.on, [asked[at] for at in some], rows)
                for at, answer in zip(some, holds, strict=True):
                    found[at] = answer
        return found

    def near(self, rows: KeyRows, step_rows: StepRows) -> NearAnswers:
        """Return what near rows answer; ``rows``: in the order of keys."""
        earlier = self._one_earlier
        pairs = {
            number: found
            for number, other in earlier.items()
            if (found := near_pairs(rows, number, other)).row.size
        }
        if not pairs:
            return NOTHING_NEAR
        own = step_rows.rows(rows.place)
        holds, is_known = {}, {}
        for number, found in pairs.items():
            answers = self._of_pairs(self.pattern.steps[number], own, found)
            bits = np.left_shift(1, found.back)
            holds[number] = _bits_by_row(found.row[answers], bits[answers], rows.place.size)
            is_known[number] = _bits_by_row(found.row, bits, rows.place.size)
        numbers = dict(zip(rows.place.tolist(), range(rows.place.size), strict=True))
        return NearAnswers(earlier, holds, is_known, numbers)

    def _of_pairs(self, step: Step, own: pl.DataFrame, pairs: Pairs) -> Mask:
        assert step.on is not None, f"step {step.name} has no condition on earlier rows"
        (names,) = self._earlier[step.name].values()
        used = [name for name in step.on.meta.root_names() if name in self.columns]
        before = np.where(pairs.back > 0, pairs.earlier, -1)
        earlier = lines_or_null(own[[*{*names.values()}]], before)
        frame = lines_at(own[used], pairs.row).hstack(
            [earlier[column].alias(name) for name, column in names.items()]
        )
        return _mask(row_values(step.on, frame, pl.Boolean())[0])

    @cached_property
    def _one_earlier(self) -> Mapping[int, int]:
        """The steps that ask for the row of one step, with this step."""
        return {
            number: next(iter(self._earlier[step.name]))
            for number, step in enumerate(self.pattern.steps)
            if len(self._earlier[step.name]) == 1
        }

    def _holds(
        self, step: Step, on: pl.Expr, asked: Sequence[Question], rows: StepRows
    ) -> Sequence[bool]:
        places = np.array([each.place for each in asked])
        frame = rows.rows(places)[list(self.columns)]
        for number, names in self._earlier[step.name].items():
            of_step = np.array([_last_of(each.refs, number) for each in asked])
            earlier = rows.rows_or_null(of_step)
            frame = frame.hstack([earlier[column].alias(name) for name, column in names.items()])
        holds, _ = row_values(on, frame, pl.Boolean())
        answers: list[bool] = holds.fill_null(value=False).to_list()
        return answers

    @cached_property
    def _earlier(self) -> Mapping[str, Mapping[int, Mapping[str, str]]]:
        """The columns of earlier rows that a step asks for: by step, earlier step and name."""
        found: dict[str, dict[int, dict[str, str]]] = {}
        numbers = {step.name: number for number, step in enumerate(self.pattern.steps)}
        for step in self.pattern.steps:
            found[step.name] = {}
            for name in step.on.meta.root_names() if step.on is not None else ():
                earlier, _, column = name.partition(".")
                if earlier in numbers and column:
                    found[step.name].setdefault(numbers[earlier], {})[name] = column
        return found


def holding(truths: Sequence[pl.Expr], own: pl.DataFrame) -> Sequence[Mask]:
    """Mark, for each condition, the rows on which it holds: it is not null and does not fail.

    ``truths``: of ``truths_of``.  ``own``: the columns that conditions may name, and no others.
    """
    found = _evaluated(truths, own)
    if found is None:
        found = [row_values(each, own, pl.Boolean())[0] for each in truths]
    return [_mask(each) for each in found]


def truths_of(conditions: Sequence[pl.Expr]) -> Sequence[pl.Expr]:
    """Return conditions as Booleans, each with a name of its own."""
    return [
        condition.cast(pl.Boolean).alias(f"@{number}")
        for number, condition in enumerate(conditions)
    ]


def _evaluated(expressions: Sequence[pl.Expr], own: pl.DataFrame) -> Sequence[pl.Series] | None:
    """Return the values of all rows, None if an expression fails on some of them."""
    try:
        return own.with_columns(expressions).get_columns()[own.width :]
    except MemoryError:  # which says nothing about the rows
        raise
    except FAILURES:  # a user's condition may raise anything
        return None


def _last_of(refs: Refs, step: int) -> int:
    """Return the place of the last row of a step, -1 without one."""
    places = (place_of(ref) for ref in reversed(refs) if step_of(ref) == step)
    return next(places, _NO_PLACE)


def _bits_by_row(row: Numbers, bits: Numbers, count: int) -> Sequence[int]:
    """Return the sum of the bits of each row."""
    return np.bincount(row, bits, count).astype(np.int64).tolist()  # type: ignore[no-any-return]


def _mask(holds: pl.Series) -> Mask:
    known = holds.fill_null(value=False) if holds.null_count() else holds
    mask: Mask = known.to_numpy()
    return mask
