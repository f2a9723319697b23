"""Judge cases: run each through operators, windows, watermarks or clocks, and compare."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any

import polars as pl

from tidemark.conformance import clocks
from tidemark.conformance.case import Case, ConformanceError, Fields
from tidemark.conformance.compare import Difference, compare
from tidemark.conformance.joins import run_join
from tidemark.conformance.offer import require_offered
from tidemark.conformance.patterns import run_pattern
from tidemark.conformance.rules import NotOfferedError
from tidemark.conformance.run import RunResult, run
from tidemark.conformance.translate import window_of
from tidemark.core.time.watermark import bounded
from tidemark.errors import PipelineError, TidemarkError
from tidemark.language.pipeline import Pipeline

Results = list[dict[str, Any]]

_END: Fields = {"watermark": "+inf"}

_CRASHES = (
    *(TidemarkError, AssertionError, ArithmeticError, LookupError, TypeError, ValueError),
    *(AttributeError, pl.exceptions.PolarsError),
)


class Outcome(Enum):
    """The outcome of a case."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_OFFERED = "not offered"


@dataclass(frozen=True)
class Verdict:
    """The outcome of one case, with the difference, or the rule that Tidemark follows instead."""

    case: Case
    outcome: Outcome
    difference: Difference = field(default_factory=Difference)
    instead: str = ""


def judge(case: Case, *, restart_often: bool = False) -> Verdict:
    """Run a case and compare; a neutral case fails if an option that it needs is not offered.

    ``restart_often``: restart after each step, which must not change results.

    Raises:
        ConformanceError: a parameter of the case is unknown.
    """
    try:
        if not case.is_neutral:
            require_offered(case)
        difference = _answered(case, restart_often=restart_often)
    except NotOfferedError as reason:
        if case.is_neutral:
            return Verdict(case, Outcome.FAILED, Difference(words=(f"not offered: {reason}",)))
        return Verdict(case, Outcome.NOT_OFFERED, instead=str(reason))
    except ConformanceError:
        raise
    except _CRASHES as error:
        words = (f"{type(error).__name__}: {error}",)
        return Verdict(case, Outcome.FAILED, Difference(words=words))
    return Verdict(case, Outcome.FAILED if difference else Outcome.PASSED, difference)


def _answered(case: Case, *, restart_often: bool) -> Difference:
    if "join" in case.spec:
        return _compared(case, run_join, restart_often=restart_often)
    if "pattern" in case.spec:
        return _compared(case, run_pattern, restart_often=restart_often)
    if case.emit == "state":
        collected = run(replace(case, input=(*case.input, _END)))
        return compare(case, _held(collected.results), collected.counters)
    asked = _ASKED.get(case.emit)
    if case.spec.get("aggregate") == "merge_windows":
        asked = _merged
    if asked is not None:
        return compare(case, asked(case), {})
    return _compared(case, run, restart_often=restart_often)


def _compared(case: Case, runs: Callable[..., RunResult], *, restart_often: bool) -> Difference:
    for arranged in _arrangements(case):
        collected = runs(arranged, restart_often=restart_often)
        difference = compare(case, collected.results, collected.counters)
        if difference:
            break
    return difference


def _arrangements(case: Case) -> Iterator[Case]:
    """Yield the case; if order does not matter, also with its elements reversed, and bundled.

    A join's is also run with all items of the right side first.
    """
    yield case
    if case.more.get("order_independent") and "join" in case.spec:
        yield replace(
            case, input=tuple(sorted(case.input, key=lambda item: item["side"] == "left"))
        )
        return
    elements = [item for item in case.input if "ts" in item]
    others = [item for item in case.input if "ts" not in item]
    if case.more.get("order_independent") and case.input == (*elements, *others):
        yield replace(case, input=(*reversed(elements), *others))
        yield replace(case, input=({"bundle": elements}, *others))


def _assigned(case: Case) -> Results:
    """Return the windows of each element: the panes of a run with this element only."""
    results: Results = []
    for after, element in enumerate(case.input):
        panes = run(replace(case, input=(element, _END))).results
        for pane in panes:
            window = {name: pane[name] for name in ("key", "start", "end")}
            results.append({**window, "kind": "assign", "after": after})
    return results


def _merged(case: Case) -> Results:
    """Return the sessions that windows merge into; each window is a row with its own gap."""
    rows: list[Fields] = []
    for item in case.input:
        start, end = item["window"]
        rows.append({"key": "", "ts": start, "value": 1, "gap_ms": end - start})
    gaps = {row["gap_ms"] for row in rows}
    gap_ms = gaps.pop() if len(gaps) == 1 else "per_element"
    spec = {**case.spec, "window": {"type": "session", "gap_ms": gap_ms}, "emit": "on_close"}
    panes = run(replace(case, spec=spec, input=(*rows, _END))).results
    return [{"start": pane["start"], "end": pane["end"], "kind": "merged"} for pane in panes]


def _held(results: Results) -> Results:
    """Return what a sink holds at the end of input: the last pane of each key and window."""
    panes: dict[tuple[Any, ...], dict[str, Any]] = {}
    for pane in results:
        name = (pane["key"], pane.get("window", pane.get("start")))
        if pane["kind"] == "retract":
            panes.pop(name, None)
        elif pane["kind"] != "late":
            panes[name] = {**pane, "kind": "state"}
    return list(panes.values())


def _validated(case: Case) -> Results:
    """Return an error for each set of parameters that is refused."""
    results: Results = []
    for after, parameters in enumerate(case.input):
        try:
            _build({**case.window, **parameters})
        except PipelineError:
            results.append({"kind": "error", "after": after})
    return results


def _build(parameters: Fields) -> None:
    if "delay_ms" in parameters:
        bounded(f"{parameters['delay_ms']}ms")
        return
    pipeline = Pipeline("validated")
    source = pipeline.source(
        "in", schema={"key": str, "ts": int}, event_time="ts", watermark=bounded(0)
    )
    lateness_ms = parameters.get("grace_ms", parameters.get("allowed_lateness_ms", 0))
    source.key_by("key").window(window_of(parameters), allowed_lateness=f"{lateness_ms}ms")


_ASKED: Mapping[str, Callable[[Case], Results]] = {
    "assign": _assigned,
    "validate": _validated,
    "watermark_probe": clocks.watermark_probes,
    "on_change": clocks.changes,
    "idle_probe": clocks.idle_probes,
}
