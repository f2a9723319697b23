"""Conditions of a pattern as columns: the bits of rows, and conditions on earlier rows."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from tidemark.core.operators.operator import Numbers
from tidemark.core.operators.patterns.automaton import Question
from tidemark.core.operators.patterns.partial import Refs, place_of, step_of
from tidemark.core.operators.patterns.pattern import Pattern, Step
from tidemark.core.operators.patterns.step_rows import StepRows
from tidemark.core.rows.row_values import row_values

_NO_PLACE = -1


@dataclass(frozen=True)
class Conditions:
    """The conditions of a pattern, for rows with these columns."""

    pattern: Pattern
    columns: Mapping[str, pl.DataType]

    def bits(self, rows: pl.DataFrame) -> Numbers:
        """Return the bits of each row; a condition that is null or fails does not hold."""
        bits = np.zeros(rows.height, np.int64)
        own = rows.select(*self.columns)
        for number, condition in enumerate(self.pattern.conditions):
            holds, _ = row_values(condition, own, pl.Boolean())
            bits |= holds.fill_null(value=False).to_numpy().astype(np.int64) << number
        return bits

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

    def _holds(
        self, step: Step, on: pl.Expr, asked: Sequence[Question], rows: StepRows
    ) -> Sequence[bool]:
        places = np.array([each.place for each in asked])
        frame = rows.rows(places).select(*self.columns)
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


def _last_of(refs: Refs, step: int) -> int:
    """Return the place of the last row of a step, -1 without one."""
    places = (place_of(ref) for ref in reversed(refs) if step_of(ref) == step)
    return next(places, _NO_PLACE)
