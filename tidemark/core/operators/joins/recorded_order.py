"""Answers in the order of the log: each row has what the versions before it say.

Versions that are stored come before all rows.  Of new versions, those count for a row that are
before it in the log and count at its time.  The highest of them all is the answer.
"""

from collections.abc import Sequence

import numpy as np
import polars as pl

from tidemark.core.operators.joins.answered_rows import answers_of
from tidemark.core.operators.joins.version_runs import FROM, NONE, is_higher, ranked
from tidemark.core.operators.joins.versions import Versions
from tidemark.core.operators.operator import Numbers
from tidemark.core.rows.keys import distinct_keys
from tidemark.core.state.blocks import lines_at
from tidemark.core.time.row_watermarks import ORDER
from tidemark.core.time.segment import EVENT_TIME


def answers_in_recorded_order(
    rows: pl.DataFrame,
    versions: pl.DataFrame,
    stored: Versions,
    key: Sequence[str],
    columns: Sequence[str],
) -> pl.DataFrame:
    """Return the answers of rows, with nulls where no version answers; add the versions.

    ``versions``: new ones; both frames have ORDER.  ``columns``: of the answers, RANK and DELETED
    among them.
    """
    table = versions.drop(ORDER)
    if rows.is_empty():
        stored.add(table)
        return answers_of(table.select(columns).clear())
    if versions.height and int(versions[ORDER].to_numpy().max()) < int(
        rows[ORDER].to_numpy().min()
    ):
        stored.add(table)
        return answers_of(stored.answers(rows, columns))
    found = stored.answers(rows, columns)
    stored.add(table)
    if versions.is_empty() or int(versions[ORDER].to_numpy().min()) > int(
        rows[ORDER].to_numpy().max()
    ):
        return answers_of(found)
    newest = _highest_before(rows, versions, key)
    own = np.flatnonzero(newest != NONE)
    own = own[
        stored.visible(
            versions[EVENT_TIME].to_numpy()[newest[own]], rows[EVENT_TIME].to_numpy()[own]
        )
    ]
    fresh = lines_at(versions.select(columns), newest[own])
    known = np.flatnonzero(found[EVENT_TIME].is_not_null().to_numpy()[own])
    lower = is_higher(lines_at(found, own[known]), lines_at(fresh, known))
    better = np.setdiff1d(np.arange(own.size), known[lower], assume_unique=True)
    place = np.arange(found.height)
    place[own[better]] = found.height + better
    return answers_of(lines_at(pl.concat([found, fresh]), place))


def _highest_before(rows: pl.DataFrame, versions: pl.DataFrame, key: Sequence[str]) -> Numbers:
    """Return for each row the place of the highest version before it that counts, or -1.

    In each pass, the rows and versions of a key lie in pairs of blocks, in the order of the log.
    Rows of the second block of a pair see the versions of the first.  The next pass has blocks
    twice as large.  So each row meets each version before it in one of the passes.
    """
    names = [*key, ORDER]
    both = pl.concat([rows.select(names), versions.select(names)])
    _, group = distinct_keys(both, key)
    by_rank, own_rank = ranked(versions)
    rank = np.append(np.full(rows.height, NONE), own_rank)
    time_ms = np.append(rows[EVENT_TIME].to_numpy(), versions[FROM].to_numpy())
    number = _number_in_group(group, both[ORDER].to_numpy())
    # At the same time, a version comes before the row that it answers.
    by_time = np.lexsort((rank == NONE, time_ms, group))
    group, number, rank = group[by_time], number[by_time], rank[by_time]
    most = int(number.max())
    best = np.full(both.height, NONE)
    size = 1
    while size <= most:
        block = number // size
        second = block % 2 == 1
        pair = group * (most // size + 1) + block // 2
        order = np.argsort(pair, kind="stable")
        begins = np.append(False, np.diff(pair[order]) != 0)
        floor = np.add.accumulate(begins) * (by_rank.size + 1)
        seen = np.where(second, NONE, rank)[order] + 1
        highest = np.maximum.accumulate(floor + seen) - floor - 1
        best[order] = np.maximum(best[order], np.where(second[order], highest, NONE))
        size *= 2
    found = np.empty(both.height, np.int64)
    found[by_time] = best
    found = found[: rows.height]
    return np.where(found == NONE, NONE, by_rank[found])


def _number_in_group(group: Numbers, order: Numbers) -> Numbers:
    """Return the number of each element in its group, by order, from 0."""
    by = np.lexsort((order, group))
    ordered = group[by]
    number = np.empty(by.size, np.int64)
    number[by] = np.arange(by.size) - np.searchsorted(ordered, ordered)
    return number
