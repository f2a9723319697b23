"""Patterns: steps that rows of a key take one after the other, within a time.

See docs/semantics.md, "Patterns".
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import polars as pl

from tidemark.errors import PipelineError

Contiguity = Literal["next", "followed_by", "followed_by_any"]
"""Which row may follow one that a match has: the next row of the key, the next row that fits the
step, or any later row that fits.
"""

MAX_STEPS = 20
"""Maximum number of steps of a pattern."""

_MAX_CONDITIONS = 62


@dataclass(frozen=True, eq=False)
class Step:
    """A step of a pattern: a condition, and how many rows in a row it takes.

    Args:
        name: of the step, unique in the pattern; without a dot.
        condition: on the columns of a row.
        on: a condition on a row and on the rows that the match has so far: ``hot.celsius`` is the
            column ``celsius`` of the last row of the step ``hot``, null without such a row.
        after: which row may follow the row before the step; of no meaning in the first step.
        least: minimum number of rows; 0: the step may be left out.
        most: maximum number of rows; None: any number.
        between: which row may follow another row of the step.
        greedy: whether the step takes every row that it can take.
        until: a condition on the columns of a row that the step does not take, and after which it
            takes no more rows.
        never: conditions that no row between the row before the step and its first row fulfils.
    """

    name: str
    condition: pl.Expr
    on: pl.Expr | None = None
    after: Contiguity = "followed_by"
    least: int = 1
    most: int | None = 1
    between: Contiguity = "followed_by"
    greedy: bool = False
    until: pl.Expr | None = None
    never: tuple[pl.Expr, ...] = ()

    def __post_init__(self) -> None:
        """Check the number of rows.

        Raises:
            PipelineError: there is no such number.
        """
        if self.least < 0 or (self.most is not None and self.most < max(1, self.least)):
            most = "any number" if self.most is None else self.most
            raise PipelineError(
                f"step {self.name!r} takes {self.least} to {most} rows: the minimum is 0 or more, "
                "the maximum 1 or more and at least the minimum"
            )


@dataclass(frozen=True)
class Skip:
    """Where the next match of a key may begin after a match.

    ``to``: after the last row ("past_last"), after the first row ("to_next"), with the first or the
    last row of ``step`` or later ("to_first", "to_last"), or anywhere ("none").
    """

    to: Literal["past_last", "to_next", "to_first", "to_last", "none"] = "past_last"
    step: str = ""


@dataclass(frozen=True, eq=False)
class Pattern:
    """Steps in order, within a time from the first row of a match.

    Args:
        steps: at most ``MAX_STEPS``.
        within_ms: the last row is less than this after the first.
        never: conditions that no row after the last step fulfils until the time is over; with them,
            a match is complete when the time is over.
        skip: where the next match may begin.
    """

    steps: tuple[Step, ...]
    within_ms: int
    never: tuple[pl.Expr, ...] = ()
    skip: Skip = Skip()

    def __post_init__(self) -> None:
        """Check the steps and the skip.

        Raises:
            PipelineError: a match can be without rows, or a skip cannot move on.
        """
        names = self.names
        if len(names) > MAX_STEPS:
            raise PipelineError(
                f"a pattern has {len(names)} steps: at most {MAX_STEPS} are allowed"
            )
        twice = sorted({name for name in names if names.count(name) > 1 or "." in name})
        if twice:
            raise PipelineError(f"names of steps: {twice} come twice or contain a dot")
        if all(step.least == 0 for step in self.steps):
            raise PipelineError(f"steps {[*names]}: give a step that each match has")
        if self.within_ms < 1:
            raise PipelineError(f"within is {self.within_ms} ms: it is at least 1 ms")
        if len(self.conditions) > _MAX_CONDITIONS:
            raise PipelineError(
                f"a pattern has {len(self.conditions)} conditions: "
                f"at most {_MAX_CONDITIONS} are allowed"
            )
        if self.skip.to in ("to_first", "to_last"):
            self._check_skip(names)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the steps."""
        return tuple(step.name for step in self.steps)

    def _check_skip(self, names: tuple[str, ...]) -> None:
        name = self.skip.step
        if name not in names:
            raise PipelineError(f"skip to step {name!r}: the pattern has the steps {[*names]}")
        number = names.index(name)
        step = self.steps[number]
        if step.least == 0:
            raise PipelineError(f"skip to step {name!r}: a match can be without this step")
        is_later = any(each.least for each in self.steps[:number])
        if not is_later and (self.skip.to == "to_first" or step.least == 1):
            raise PipelineError(
                f"skip to step {name!r}: it can have the first row of a match, so the same match "
                'would begin again; choose a later step, "to_next" or "past_last"'
            )

    @cached_property
    def conditions(self) -> tuple[pl.Expr, ...]:
        """The conditions on columns: the bits of a row, in this order.

        First that of each step; then, step by step, ``until`` and ``never``; then ``never`` of the
        end.
        """
        more = [
            condition
            for step in self.steps
            for condition in (*((step.until,) if step.until is not None else ()), *step.never)
        ]
        own = [step.condition for step in self.steps]
        return (*own, *more, *self.never)

    @property
    def counts_every_row(self) -> bool:
        """Whether a row that fulfils no condition can change a match: only with "next"."""
        return any(
            (number > 0 and step.after == "next")
            or (step.between == "next" and (step.most is None or step.most > 1))
            for number, step in enumerate(self.steps)
        )
