"""Rows and timers of many keys through the automaton, a key at a time."""

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tidemark.core.operators.patterns.automaton import Automaton
from tidemark.core.operators.patterns.conditions import Conditions
from tidemark.core.operators.patterns.findings import Findings
from tidemark.core.operators.patterns.key_rows import KeyPartials, KeyRows
from tidemark.core.operators.patterns.key_run import Found, KeyRun, Question, Run
from tidemark.core.operators.patterns.near import NOTHING_NEAR
from tidemark.core.operators.patterns.partial import packed, unpacked
from tidemark.core.operators.patterns.step_rows import StepRows


def run_keys(
    automaton: Automaton,
    conditions: Conditions,
    rows: KeyRows,
    stored: KeyPartials,
    until_ms: int,
    step_rows: StepRows,
) -> tuple[Findings, KeyPartials]:
    """Return what rows and the timers before ``until_ms`` decide, and what partials are left.

    ``stored``: partial matches before the rows.  ``step_rows``: the rows of all of them.
    """
    keys = np.unique(np.concatenate([rows.key, stored.key]))
    by_key = np.argsort(rows.key, kind="stable")
    rows = rows.where(by_key)
    bounds = np.searchsorted(rows.key, keys)
    near = conditions.near(rows, step_rows) if automaton.asks else NOTHING_NEAR
    partials = dict(zip(stored.key.tolist(), unpacked(stored.lists), strict=True))
    runs = [KeyRun(automaton, partials.get(each, []), near) for each in keys.tolist()]
    taken = list(zip(rows.place.tolist(), rows.at_ms.tolist(), rows.bits.tolist(), strict=True))
    stops = pairwise([*bounds.tolist(), len(taken)])
    going = [
        each.run(taken[low:high], until_ms) for each, (low, high) in zip(runs, stops, strict=True)
    ]
    _answer(going, conditions, step_rows)
    goes_on = np.array([bool(each.partials) for each in runs], np.bool_)
    opened = [each.partials for each in runs if each.partials]
    firsts = np.array([min(each.first_ms for each in some) for some in opened], np.int64)
    left = KeyPartials(keys[goes_on], firsts, packed(opened))
    return _findings([found for each in runs for found in each.found]), left


def _findings(found: Sequence[Found]) -> Findings:
    columns = list(zip(*found, strict=True)) if found else [()] * len(Found._fields)
    kind, at_ms, is_timer, place, number, refs = columns
    sizes = np.array([len(each) for each in refs], np.int64)
    every = [ref for each in refs for ref in each]
    return Findings.joined(
        [
            Findings(
                np.array(kind, np.int64),
                np.array(at_ms, np.int64),
                np.array(is_timer, np.bool_),
                np.array(place, np.int64),
                np.array(number, np.int64),
                sizes,
                np.array(every, np.int64),
            )
        ]
    )


def _answer(runs: Sequence[Run], conditions: Conditions, rows: StepRows) -> None:
    """Let the keys run to their ends; questions of all keys are answered together."""
    asking = [(each, asked) for each in runs if (asked := next(each, None)) is not None]
    while asking:
        answers = iter(conditions.answers([each for _, asked in asking for each in asked], rows))
        asking = [
            (each, more)
            for each, asked in asking
            if (more := _sent(each, [next(answers) for _ in asked])) is not None
        ]


def _sent(run: Run, answers: Sequence[bool]) -> Sequence[Question] | None:
    try:
        return run.send(answers)
    except StopIteration:
        return None
