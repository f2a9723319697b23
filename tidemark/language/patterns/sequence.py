"""Patterns: steps in order within a time, and the absence of rows."""

from dataclasses import dataclass, replace

import polars as pl

from tidemark.core.operators.patterns import pattern
from tidemark.core.rows.expression import as_written, require_expression
from tidemark.core.time.duration import Duration, duration_text, positive_ms
from tidemark.core.windows.window import not_too_long
from tidemark.errors import PipelineError
from tidemark.language.patterns.step import Never, Step
from tidemark.plan.names import require_new_columns

ABSENT = "of"
"""The name of the only step of ``absence``."""


@dataclass(frozen=True, eq=False)
class Sequence:
    """Steps in the order in which a match has them; ``within_ms``: None until ``within``."""

    parts: dict[str, Step | Never]
    within_ms: int | None = None

    def __repr__(self) -> str:
        within = "" if self.within_ms is None else f'.within("{duration_text(self.within_ms)}")'
        return f"sequence({', '.join(self.parts)}){within}"

    def within(self, time: Duration) -> "Sequence":
        """Set the time in which a match ends: its last row is less than that after its first.

        Raises:
            PipelineError: ``time`` is not a positive duration, or too long.
        """
        return replace(self, within_ms=_time_ms(time, "within"))

    @property
    def steps(self) -> dict[str, Step]:
        """The steps by name, in order."""
        return {name: part for name, part in self.parts.items() if isinstance(part, Step)}

    def in_core(self, skip: pattern.Skip) -> pattern.Pattern:
        """Return the pattern as the operator reads it.

        Raises:
            PipelineError: it has no time, too many steps, or a match may have no row; or ``skip``
                cannot move on.
        """
        if self.within_ms is None:
            raise PipelineError(
                f'match: {self!r} has no time; a pattern ends, so call within("10m") on it'
            )
        steps: list[pattern.Step] = []
        never: tuple[pl.Expr, ...] = ()
        for name, part in self.parts.items():
            if isinstance(part, Never):
                never = (*never, part.condition)
            else:
                steps.append(part.in_core(name, never))
                never = ()
        return pattern.Pattern(tuple(steps), self.within_ms, never, skip)


def sequence(**parts: Step | Never) -> Sequence:
    """Return a pattern of steps in order: ``sequence(hot=step(...), smoke=step(...))``.

    ``name=never(condition)`` between two steps, or after the last one, forbids rows.

    Raises:
        PipelineError: there is no step, the first part is no step, or a value is neither a step nor
            ``never``.
    """
    for name, part in parts.items():
        if not isinstance(part, Step | Never):
            shown = as_written(part)
            raise PipelineError(
                f"sequence({name}): {shown} is not a step; write {name}=step({shown})"
                if isinstance(part, pl.Expr)
                else f"sequence({name}): {shown} is not step(...) or never(...)"
            )
    require_new_columns(list(parts), "sequence")
    if not parts:
        raise PipelineError("sequence(): no steps; pass them in order, as name=step(condition)")
    first = next(iter(parts))
    if isinstance(parts[first], Never):
        raise PipelineError(
            f"sequence({first}): a pattern begins with a step, and no row comes before it; move "
            "never() after a step"
        )
    return Sequence(parts)


def absence(*, of: pl.Expr, for_: Duration) -> Sequence:
    """Return the pattern of a row that fulfils ``of``, and then no such row for a time.

    Its only step is ``of``: ``select(since="of.at")``.

    Raises:
        PipelineError: ``of`` is not an expression, or ``for_`` is not a positive duration.
    """
    condition = require_expression(of, "absence(of)")
    parts: dict[str, Step | Never] = {ABSENT: Step(condition), "again": Never(condition)}
    return Sequence(parts, _time_ms(for_, "absence(for_)"))


def _time_ms(time: Duration, what: str) -> int:
    return not_too_long(positive_ms(time, what), what)
