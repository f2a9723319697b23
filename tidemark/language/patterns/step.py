"""The parts of a pattern: steps, which take rows, and ``never``, which forbids rows."""

from dataclasses import dataclass, replace
from typing import Literal

import polars as pl

from tidemark.core.operators.patterns import pattern
from tidemark.core.operators.patterns.pattern import Contiguity
from tidemark.core.rows.expression import as_written, require_expression
from tidemark.core.rows.options import require_choice
from tidemark.errors import PipelineError


@dataclass(frozen=True, eq=False)
class Step:
    """A step of a pattern: rows that fulfil a condition.  Methods return a changed step."""

    condition: pl.Expr
    on: pl.Expr | None = None
    contiguity: Contiguity = "followed_by"
    least: int = 1
    most: int | None = 1
    between: Contiguity = "followed_by"
    is_greedy: bool = False
    until_condition: pl.Expr | None = None

    def __repr__(self) -> str:
        return f"step({as_written(self.condition)})"

    def times(
        self, least: int, most: int | None = None, *, contiguity: Contiguity = "followed_by"
    ) -> "Step":
        """Take ``least`` rows, or ``least`` to ``most``.

        ``contiguity``: which row may follow another row of the step.

        Raises:
            PipelineError: there is no such number of rows, or the step has a number already.
        """
        for number, option in ((least, "least"), (most, "most")):
            if number is not None and (isinstance(number, bool) or not isinstance(number, int)):
                raise PipelineError(f"times({option}): {as_written(number)} is not an integer")
        if least < 1 or (most is not None and most < least):
            shown = f"times({least})" if most is None else f"times({least}, {most})"
            raise PipelineError(
                f"{shown}: the minimum is 1 or more, the maximum at least the minimum; optional() "
                "also allows no row"
            )
        return self._counted("times", least, least if most is None else most, contiguity)

    def one_or_more(self, *, contiguity: Contiguity = "followed_by") -> "Step":
        """Take one row or any higher number; ``contiguity``: as of ``times``.

        Raises:
            PipelineError: the step has a number of rows already.
        """
        return self._counted("one_or_more", 1, None, contiguity)

    def _counted(self, what: str, least: int, most: int | None, contiguity: Contiguity) -> "Step":
        require_choice(contiguity, Contiguity, f"{what}(contiguity)")
        if self.most != 1:
            raise PipelineError(
                f"{what}(): {self} has a number of rows already; call one of times() and "
                "one_or_more() once"
            )
        own = 0 if self.least == 0 else least
        if self.least == 0 and least > 1:
            raise PipelineError(
                f"{what}(): optional() allows no row, and {least} is the least number; call "
                "optional() on a step that takes one row, or one_or_more()"
            )
        return replace(self, least=own, most=most, between=contiguity)

    def optional(self) -> "Step":
        """Let a match have no row of the step.

        Raises:
            PipelineError: the step takes at least two rows.
        """
        if self.least > 1:
            raise PipelineError(
                f"optional(): the step takes at least {self.least} rows; a step without a row may "
                "not need more than one"
            )
        return replace(self, least=0)

    def greedy(self) -> "Step":
        """Take each row that the step can take."""
        return replace(self, is_greedy=True)

    def until(self, condition: pl.Expr) -> "Step":
        """Take no more rows from the first row on that fulfils ``condition``.

        Raises:
            PipelineError: ``condition`` is not an expression.
        """
        return replace(self, until_condition=require_expression(condition, "until"))

    def in_core(self, name: str, never: tuple[pl.Expr, ...]) -> pattern.Step:
        """Return the step as the operator reads it; ``never``: conditions before the step."""
        return pattern.Step(
            name,
            self.condition,
            self.on,
            self.contiguity,
            self.least,
            self.most,
            self.between,
            self.is_greedy,
            self.until_condition,
            never,
        )


@dataclass(frozen=True, eq=False)
class Never:
    """A condition that no row fulfils between two steps, or after the last step."""

    condition: pl.Expr

    def __repr__(self) -> str:
        return f"never({as_written(self.condition)})"


def step(
    condition: pl.Expr, *, on: pl.Expr | None = None, contiguity: Contiguity = "followed_by"
) -> Step:
    """Return a step of a pattern: one row that fulfils ``condition``.

    ``on``: a condition on the row and on rows that the match has already.  ``col("hot.celsius")``
    is the column ``celsius`` of the last row of the step ``hot``.  ``contiguity``: which row may
    follow the step before: "next" is the next row of the key, "followed_by" the next row that fits,
    and "followed_by_any" each later row that fits.

    Raises:
        PipelineError: a condition is not an expression, or the contiguity is unknown.
    """
    require_choice(contiguity, Contiguity, "step(contiguity)")
    if on is not None:
        require_expression(on, "step(on)")
    return Step(require_expression(condition, "step"), on, contiguity)


def never(condition: pl.Expr) -> Never:
    """Return a part of a pattern: no row fulfils ``condition`` until the next step.

    As the last part of a pattern, no row fulfils it until the time of the pattern is over.

    Raises:
        PipelineError: ``condition`` is not an expression.
    """
    return Never(require_expression(condition, "never"))


@dataclass(frozen=True)
class SkipTo:
    """Where the next match begins: at a row of a step."""

    to: Literal["to_first", "to_last"]
    step: str

    @property
    def written(self) -> str:
        """What users write."""
        return f'{self.to}("{self.step}")'


def to_first(step: str) -> SkipTo:
    """Let the next match begin at the first row of ``step``, or later."""
    return SkipTo("to_first", step)


def to_last(step: str) -> SkipTo:
    """Let the next match begin at the last row of ``step``, or later."""
    return SkipTo("to_last", step)
