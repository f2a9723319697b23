"""The matches of a pattern in the rows of each key: checks of ``match``, and ``select``."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, NoReturn, get_args

import polars as pl

from tidemark.core.aggregates.aggregate import AggregateFunction, Aggregation
from tidemark.core.operators.patterns.pattern import Skip
from tidemark.core.operators.patterns.results import FIRST, LAST, MATCHED, RULE
from tidemark.core.operators.patterns.step_values import OfRows, StepValue, Value, step_columns
from tidemark.core.operators.ports import ALL, shown_columns, shown_key
from tidemark.core.operators.rows import row_fields
from tidemark.core.rows.expression import as_written, require_column
from tidemark.core.rows.log_rows import types_on_log
from tidemark.core.rows.options import require_count
from tidemark.errors import PipelineError
from tidemark.language.absent import absent
from tidemark.language.patterns.matched_stream import MatchedStream, matched
from tidemark.language.patterns.sequence import Sequence
from tidemark.language.patterns.step import Never, SkipTo
from tidemark.plan.columns_read import names_in
from tidemark.plan.dataflow import Dataflow
from tidemark.plan.logical import AnyPatternStage, KeyedNode, PatternStage, RulesStage
from tidemark.plan.names import require_new_columns
from tidemark.plan.operators.late import require_not_late
from tidemark.plan.operators.replacing import require_rows_that_stay

SkipName = Literal["past_last", "to_next", "none"]


@dataclass(frozen=True, eq=False)
class Matches:
    """The matches of a pattern, without values of their rows yet."""

    dataflow: Dataflow
    stage: AnyPatternStage

    def __repr__(self) -> str:
        return f"Matches({', '.join(self.stage.steps) or 'rules'})"

    if not TYPE_CHECKING:  # type checkers know the methods that there are

        def __getattr__(self, name: str) -> NoReturn:
            """Raise AbsentMethodError, with what to write instead."""
            raise absent(self, name)

    def select(self, **values: str | AggregateFunction) -> MatchedStream:
        """Return the matches as rows: the key, ``values``, and ``_rows``, which lists the rows.

        ``hot_at="hot.at"`` is the column ``at`` of the last row of the step ``hot``, null without
        such a row.  An aggregate is of the rows of a step: ``max("hot.celsius")``;
        ``count("hot")`` counts them, ``count()`` counts all rows of the match.

        Raises:
            PipelineError: a step or column is unknown, an aggregate names several steps or does not
                suit its column, or a name is taken.
        """
        shown: dict[str, StepValue] = {}
        named = self._with_steps(values)
        for name, value in values.items():
            self._require_free(name)
            shown[name] = named._value(name, value)
        require_new_columns(list(values), "select")
        return matched(self.dataflow, replace(named.stage, values=shown))

    def _with_steps(self, values: Mapping[str, str | AggregateFunction]) -> "Matches":
        """Return the matches, of rules with the names of steps that values name: any name may be.

        ``first`` and ``last`` are no steps: they are the first and the last row of a match.
        """
        if isinstance(self.stage, PatternStage):
            return self
        texts = {value for value in values.values() if isinstance(value, str) and "." not in value}
        used = [name for value in values.values() for name in names_in(value) if name not in texts]
        steps = dict.fromkeys(name.partition(".")[0] for name in used)
        kept = tuple(name for name in steps if name not in (FIRST, LAST))
        return replace(self, stage=replace(self.stage, steps=kept))

    def _require_free(self, name: str) -> None:
        rule = () if isinstance(self.stage, PatternStage) else (RULE,)
        if name in (*row_fields(by_id=True), MATCHED, *rule):
            raise PipelineError(
                f"select({name}): it clashes with a field of every match; choose another name"
            )
        if name in self.stage.key:
            raise PipelineError(f"select({name}): it is a column of the key, which results have")

    def _value(self, name: str, value: str | AggregateFunction) -> StepValue:
        what = f"select({name})"
        if isinstance(value, str):
            return self._column(value, what)
        if not callable(getattr(value, "parts", None)):
            raise PipelineError(
                f"{what}: {as_written(value)} is not a column of a step, such as "
                f'"{self._example}", or an aggregate of its rows'
            )
        return self._aggregate(name, value, what)

    @property
    def _columns(self) -> dict[str, pl.DataType]:
        return shown_columns(self.stage.node.columns)

    @property
    def _example(self) -> str:
        return f"{self.stage.steps[0] if self.stage.steps else LAST}.{next(iter(self._columns))}"

    @property
    def _known(self) -> str:
        if not self.stage.steps:
            return f"a rule may have a step of any name but {FIRST} and {LAST}"
        return f"the steps are {', '.join(self.stage.steps)}"

    def _column(self, text: str, what: str) -> Value:
        step, dot, column = text.partition(".")
        if dot and step in (FIRST, LAST) and isinstance(self.stage, RulesStage):
            require_column(column, self._columns, f"{what}={text!r}")
            return Value(None, column, first=step == FIRST)
        if not dot or step not in self.stage.steps:
            raise PipelineError(
                f"{what}: {text!r} is not a column of a step; {self._known}: write "
                f"{self._example!r}"
            )
        require_column(column, self._columns, f"{what}={text!r}")
        return Value(self.stage.steps.index(step), column)

    def _aggregate(self, name: str, function: AggregateFunction, what: str) -> OfRows:
        named = {*names_in(function)}
        used = [step for step in self.stage.steps if any(_is_of(step, each) for each in named)]
        if len(used) > 1:
            raise PipelineError(
                f"{what}: {function} is of rows of the steps {', '.join(used)}; an aggregate is of "
                "the rows of one step"
            )
        own = step_columns(used[0], self._columns) if used else {}
        if not used and named:
            step = self.stage.steps[0] if self.stage.steps else "hot"
            raise PipelineError(
                f"{what}: {function} names no step; {self._known}: write a column as "
                f"{f'{step}.{next(iter(self._columns))}'!r}, or {step!r} for its rows"
            )
        aggregation = Aggregation({name: function}, own)
        if aggregation.user_functions:
            raise PipelineError(
                f"{what}: an aggregate of your own needs windows; use collect() here, and apply() "
                "on the result"
            )
        if aggregation.by_arrival:
            raise PipelineError(
                f'{what}: the rows of a match are in order of event time; leave out order="arrival"'
            )
        return OfRows(self.stage.steps.index(used[0]) if used else None, function)


def _is_of(step: str, name: str) -> bool:
    return name == step or name.startswith(f"{step}.")


def matches(
    dataflow: Dataflow,
    rows: KeyedNode,
    pattern: object,
    skip: object,
    max_partial: int,
) -> Matches:
    """Return the matches of a pattern in the rows of each key; see ``KeyedStream.match``."""
    if not isinstance(pattern, Sequence):
        raise PipelineError(
            f"match: {as_written(pattern)} is not a pattern; write sequence(...) or absence(...)"
        )
    require_count(max_partial, "match(max_partial)")
    require_rows(rows)
    columns = shown_columns(rows.node.columns)
    _require_names(pattern, columns)
    core = pattern.in_core(_skip(skip))
    _require_conditions(pattern, columns)
    return Matches(dataflow, PatternStage(rows.node, rows.key, core, {}, max_partial))


def require_rows(rows: KeyedNode) -> None:
    """Raise PipelineError if the rows of a keyed stream cannot be matched."""
    if rows.key == (ALL,):
        raise PipelineError("match: key_by() has no column; name those that rows have in common")
    require_rows_that_stay([rows.node], "match")
    require_not_late(rows.node, "match")
    for name in shown_key(rows.key):
        if name in (*row_fields(by_id=True), MATCHED):
            raise PipelineError(
                f"match: column {name!r} of the key clashes with a field of every match; rename it "
                "in key_by()"
            )


def _skip(skip: object) -> Skip:
    if skip is None:
        return Skip()
    if isinstance(skip, SkipTo):
        return Skip(skip.to, skip.step)
    if skip not in get_args(SkipName):
        names = ", ".join(map(repr, get_args(SkipName)))
        raise PipelineError(
            f'match(skip): {as_written(skip)} is not one of {names}, to_first("step") and '
            'to_last("step")'
        )
    assert isinstance(skip, str)
    return Skip(skip)  # type: ignore[arg-type]


def _require_names(pattern: Sequence, columns: Mapping[str, pl.DataType]) -> None:
    """Raise PipelineError if a column has the name of a column of a step."""
    for step in pattern.steps:
        for name in columns:
            if name.startswith(f"{step}."):
                raise PipelineError(
                    f"sequence({step}): the stream has a column {name!r}, and a name that begins "
                    f"with {f'{step}.'!r} is a column of the step; rename one of them"
                )


def _require_conditions(pattern: Sequence, columns: Mapping[str, pl.DataType]) -> None:
    """Raise PipelineError if a condition is not one Boolean of a row, or of a row and others."""
    seen = dict(columns)
    for name, part in pattern.parts.items():
        if isinstance(part, Never):
            _require_of_row(f"never {name}", part.condition, columns, pattern)
            continue
        seen |= {f"{name}.{column}": columns[column] for column in columns}
        _require_of_row(f"step {name}", part.condition, columns, pattern)
        if part.until_condition is not None:
            _require_of_row(f"until of step {name}", part.until_condition, columns, pattern)
        if part.on is not None:
            _require_on(name, part.on, seen, pattern)


def _require_of_row(
    what: str, condition: pl.Expr, columns: Mapping[str, pl.DataType], pattern: Sequence
) -> None:
    for name in condition.meta.root_names():
        if name.partition(".")[0] in pattern.steps and name not in columns:
            raise PipelineError(
                f"{what}: {as_written(condition)} names {name!r}, a column of a step; write a "
                "condition on earlier rows as step(..., on=...)"
            )
    _require_boolean(what, condition, columns)


def _require_on(
    name: str, on: pl.Expr, columns: Mapping[str, pl.DataType], pattern: Sequence
) -> None:
    what = f"step {name}(on)"
    names = list(pattern.steps)
    for root in on.meta.root_names():
        other = root.partition(".")[0]
        if root not in columns and other in names[names.index(name) + 1 :]:
            raise PipelineError(
                f"{what}: {as_written(on)} names {root!r}, and step {other} comes after step "
                f"{name}; put the condition on step {other}"
            )
    _require_boolean(what, on, columns)


def _require_boolean(what: str, condition: pl.Expr, columns: Mapping[str, pl.DataType]) -> None:
    types = types_on_log(condition, columns, what, "a pattern")
    if types != [pl.Boolean()]:
        found = ", ".join(map(str, types))
        raise PipelineError(f"{what}: {as_written(condition)} gives {found}, not one Boolean")
