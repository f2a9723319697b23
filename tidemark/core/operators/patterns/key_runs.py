"""Rows and timers of many keys through the automaton, with partial matches from the state."""

from collections.abc import Sequence
from itertools import pairwise, starmap

import numpy as np
import polars as pl

from tidemark.core.aggregates.aggregate import ROWS
from tidemark.core.operators.operator import Mask, Numbers
from tidemark.core.operators.patterns.automaton import Automaton, Question, Row
from tidemark.core.operators.patterns.conditions import Conditions
from tidemark.core.operators.patterns.key_run import Found, KeyRun, Run
from tidemark.core.operators.patterns.partial import packed, unpacked
from tidemark.core.operators.patterns.state import FACTS, FIRST, PARTIAL, Matching
from tidemark.core.state.blocks import lines_at
from tidemark.core.state.keyed_lines import Hashes, Lines, keys_of
from tidemark.core.state.line_table import LineMatches
from tidemark.core.time.segment import EVENT_TIME


def results_until(
    automaton: Automaton,
    conditions: Conditions,
    key: Sequence[str],
    matching: Matching,
    rows: pl.DataFrame,
    until_ms: int,
) -> list[Found]:
    """Return what rows and the timers before ``until_ms`` decide, in order.

    ``rows``: those of all keys before ``until_ms`` that were not taken yet, in order of event time.
    """
    over = matching.partial.pop_due(until_ms)
    bits = conditions.bits(rows)
    if not automaton.pattern.counts_every_row:
        rows, bits = rows.filter(pl.Series(bits != 0)), bits[bits != 0]
    own = rows.select(key)
    keys, hashes, key_of = keys_of(own if over is None else pl.concat([own, over]), key)
    lines = matching.partial.find(keys, hashes)
    is_open = np.zeros(hashes.size, np.bool_)
    is_open[lines.key] = True
    used = _used(automaton, bits, key_of[: rows.height], is_open)
    touched = np.unique(np.concatenate([key_of[used], key_of[rows.height :]]))
    if not touched.size:
        return []
    places = matching.rows.add(lines_at(rows, used))
    at_ms = rows[EVENT_TIME].to_numpy()[used]
    by_key = np.argsort(key_of[used], kind="stable")
    bounds = np.searchsorted(key_of[used][by_key], np.append(touched, hashes.size))
    numbers = [part[by_key].tolist() for part in (places, at_ms, bits[used])]
    stored = unpacked(matching.partial.partials(lines.slot))
    partials = dict(zip(lines.key.tolist(), stored, strict=True))
    runs = [KeyRun(automaton, partials.get(each, [])) for each in touched.tolist()]
    taken = list(starmap(Row, zip(*numbers, strict=True)))
    going = [
        each.run(taken[low:high], until_ms)
        for each, (low, high) in zip(runs, pairwise(bounds.tolist()), strict=True)
    ]
    _answer(going, conditions, matching)
    _keep(runs, touched, keys, hashes, lines, matching)
    return sorted(found for each in runs for found in each.found)


def _used(automaton: Automaton, bits: Numbers, key_of: Numbers, is_open: Mask) -> Numbers:
    """Return the rows that a partial match may take, or that end one.

    These are the rows of a key with partial matches, and of other keys from a row on that fulfils
    the condition of a first step.  Of rows one after the other that fulfil no condition, the first
    is enough.
    """
    row = np.arange(bits.size)
    starting = row[bits & automaton.starting != 0][::-1]
    first = np.full(is_open.size, bits.size)
    first[key_of[starting]] = starting
    used = row[is_open[key_of] | (row >= first[key_of])]
    if not automaton.pattern.counts_every_row:
        return used
    by_key = used[np.argsort(key_of[used], kind="stable")]
    fits = bits[by_key] != 0
    begins = np.append(True, key_of[by_key][1:] != key_of[by_key][:-1])[: by_key.size]
    tells = fits | begins | np.append(True, fits[:-1])[: by_key.size]
    return np.sort(by_key[tells])


def _answer(runs: Sequence[Run], conditions: Conditions, matching: Matching) -> None:
    """Let the keys run to their ends; questions of all keys are answered together."""
    asking = [(each, asked) for each in runs if (asked := next(each, None)) is not None]
    while asking:
        answers = iter(
            conditions.answers([each for _, asked in asking for each in asked], matching.rows)
        )
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


def _keep(
    runs: Sequence[KeyRun],
    touched: Numbers,
    keys: pl.DataFrame,
    hashes: Hashes,
    lines: LineMatches,
    matching: Matching,
) -> None:
    """Put the partial matches of keys into the state."""
    goes_on = np.array([bool(each.partials) for each in runs])
    at = touched[goes_on]
    opened = [each.partials for each in runs if each.partials]
    facts = np.empty(at.size, FACTS)
    facts[ROWS] = 1
    facts[FIRST] = [min(each.first_ms for each in some) for some in opened]
    frame = pl.DataFrame([pl.Series(ROWS, facts[ROWS]), packed(opened).alias(PARTIAL)])
    matching.partial.replace(lines, Lines(lines_at(keys, at), hashes[at], facts, frame))
    gone = np.setdiff1d(lines.key, at)
    matching.partial.end(lines_at(keys, gone))
