"""The operator of a pattern: its matches, or its timeouts (docs/semantics.md, "Patterns")."""

from collections.abc import Iterable, Iterator

import polars as pl

from tidemark.core.operators.operator import Operator
from tidemark.core.operators.patterns.operator import PatternMatch
from tidemark.core.operators.patterns.pattern import Pattern, Skip, Step
from tidemark.core.operators.patterns.results import FIRST, LAST
from tidemark.core.operators.patterns.step_values import StepValue, Value
from tidemark.core.operators.patterns.timeouts import PatternTimeouts
from tidemark.core.operators.ports import LATE, ROWS, Input
from tidemark.core.rows.expression import whole_text
from tidemark.core.time.duration import duration_text
from tidemark.plan.columns_read import names_in
from tidemark.plan.dataflow import Dataflow, output_topics
from tidemark.plan.logical import MAX_PARTIAL, AnyPatternStage, PatternStage
from tidemark.plan.outputs import PatternOutput, advances
from tidemark.plan.physical import OperatorPlan, PortPlan, StreamPlan
from tidemark.plan.texts import columns_text


def pattern_operator(
    dataflow: Dataflow, output: PatternOutput, stage: PatternStage, stream: StreamPlan, log: str
) -> OperatorPlan:
    """Return the operator that matches a pattern in ``stream``; ``log``: its topic."""
    results, late, changelog = output_topics(dataflow.name, output.name)
    topics = {ROWS: "" if output.results else results, LATE: late}
    operator = Operator(
        output.name,
        (Input((stream.name,), stream.key, stream.columns, stream.topics),),
        pattern_body(stage),
        stage.pattern.within_ms,
        advances=advances(output),
    )
    decides = _decides(stage)
    return OperatorPlan(
        service="patterns",
        log=log,
        operator=operator,
        ports=tuple(PortPlan(port, topics[port.kind], output.format) for port in operator.outputs),
        changelog=changelog,
        dead_letters=dataflow.dead_letters,
        description=described(stage, f"pattern {pattern_text(stage.pattern)}", "key"),
        state_signature={
            "stream": stream.name,
            "key": columns_text(stream.key, stream.columns),
            "pattern": pattern_text(stage.pattern),
            "partial matches": f"at most {stage.max_partial}",
            "types": columns_text(sorted(decides), stream.columns),
        },
        reads=frozenset(stage.key) | decides | _shown(stage),
    )


def pattern_body(stage: PatternStage) -> PatternMatch:
    """Return the body of a pattern: that of its matches or that of its timeouts."""
    body = PatternTimeouts if stage.timeouts else PatternMatch
    columns = stage.node.columns
    return body(stage.pattern, stage.key, columns, stage.values, stage.max_partial)


def _decides(stage: PatternStage) -> frozenset[str]:
    """Return the columns of the stream that conditions name."""
    steps = stage.pattern.steps
    expressions = (*stage.pattern.conditions, *(each.on for each in steps if each.on is not None))
    return _columns(stage, (name for each in expressions for name in each.meta.root_names()))


def _shown(stage: PatternStage) -> frozenset[str]:
    """Return the columns of the stream that results show."""
    values = stage.values.values()
    plain = (each.column for each in values if isinstance(each, Value))
    others = (each.function for each in values if not isinstance(each, Value))
    return _columns(stage, (*plain, *(name for each in others for name in names_in(each))))


def _columns(stage: PatternStage, names: Iterable[str]) -> frozenset[str]:
    """Return the columns of the stream among names; ``hot.celsius`` is the column ``celsius``."""
    parts = {name: name.partition(".") for name in names}
    own = (parts[name][2] if parts[name][0] in stage.steps else name for name in parts)
    return frozenset(own).intersection(stage.node.columns)


def described(stage: AnyPatternStage, text: str, of_each: str) -> str:
    """Return a line of the plan; ``text``: what is matched, ``of_each``: has partial matches."""
    if stage.timeouts:
        text = f"timeouts of {text}"
    if stage.max_partial != MAX_PARTIAL:
        text += f", at most {stage.max_partial:,} partial matches a {of_each}"
    shown = (f"{name}={_value_text(value, stage.steps)}" for name, value in stage.values.items())
    return ", ".join([text, *shown])


def _value_text(value: StepValue, steps: tuple[str, ...]) -> str:
    """Return a value of results as a user writes it."""
    if isinstance(value, Value):
        step = (FIRST if value.first else LAST) if value.step is None else steps[value.step]
        return f'"{step}.{value.column}"'
    return str(value.function)


def pattern_text(pattern: Pattern) -> str:
    """Return a pattern with all that its matches depend on."""
    parts = [part for n, step in enumerate(pattern.steps) for part in _step_parts(step, n)]
    parts += [_never_text(each) for each in pattern.never]
    text = f"{', '.join(parts)}, within {duration_text(pattern.within_ms)}"
    return f"{text}, skip {_skip_text(pattern.skip)}"


def _never_text(condition: pl.Expr) -> str:
    return f"never {whole_text(condition)}"


def _step_parts(step: Step, number: int) -> Iterator[str]:
    """Yield the conditions that hold before a step, then the step."""
    yield from map(_never_text, step.never)
    after = f"{step.after} " if number and step.after != "followed_by" else ""
    text = f"{after}{step.name}{_count_text(step)}: {whole_text(step.condition)}"
    if step.on is not None:
        text += f" on {whole_text(step.on)}"
    if step.until is not None:
        text += f" until {whole_text(step.until)}"
    yield text


def _count_text(step: Step) -> str:
    """Return how many rows a step takes, and how they follow each other; "" for one row."""
    most = "" if step.most is None else str(step.most)
    text = "" if (step.least, step.most) == (1, 1) else f" {{{step.least},{most}}}"
    if step.between != "followed_by" and step.most != 1:
        text += f" {step.between}"
    return f"{text} greedy" if step.greedy else text


def pattern_name(stage: PatternStage) -> tuple[str, ...]:
    """Return the steps as a part of the name of a stage."""
    return ("-".join(stage.steps),)


def _skip_text(skip: Skip) -> str:
    return f"{skip.to}({skip.step})" if skip.step else skip.to
