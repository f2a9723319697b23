"""Lines inside windows: sums over the lines of each window, and the session of each line."""

from collections.abc import Sequence

import numpy as np
import polars as pl

from tidemark.core.operators.operator import Numbers
from tidemark.core.rows.keys import distinct_keys
from tidemark.core.time.segment import EVENT_TIME
from tidemark.core.windows.pane import END, START

NONE = -1


def sums_within(
    lines: pl.DataFrame,
    windows: pl.DataFrame,
    start_ms: Numbers,
    key: tuple[str, ...],
    names: Sequence[str],
) -> list[Numbers]:
    """Return for each window the sums of Int64 columns of the lines of its key inside it.

    ``start_ms``: the time from which lines are inside, for each window; they are before its END.
    """
    count, ids = windows.height, _ids([windows, windows, lines], key)
    at_ms = np.concatenate([start_ms, windows[END].to_numpy(), lines[EVENT_TIME].to_numpy()])
    is_line = np.repeat([False, False, True], [count, count, lines.height])
    order = np.lexsort((is_line, at_ms, ids))  # a bound comes before lines at its time
    sums = []
    for name in names:
        values = np.zeros(order.size, np.int64)
        values[2 * count :] = lines[name].to_numpy()
        until = np.empty(order.size, np.int64)
        until[order] = np.cumsum(values[order])
        sums.append(until[count : 2 * count] - until[:count])
    return sums


def sessions_of(lines: pl.DataFrame, sessions: pl.DataFrame, key: tuple[str, ...]) -> Numbers:
    """Return for each line the place of the session that it is in, or NONE."""
    count, ids = sessions.height, _ids([sessions, lines], key)
    at_ms = np.concatenate([sessions[START].to_numpy(), lines[EVENT_TIME].to_numpy()])
    is_line = np.repeat([False, True], [count, lines.height])
    order = np.lexsort((is_line, at_ms, ids))
    # The sessions of all keys in order: the last one before a line is the only one it can be in.
    place = np.full(order.size, NONE)
    begins = ~is_line[order]
    place[begins] = np.flatnonzero(begins)
    last = np.maximum.accumulate(place)
    session = np.where(last == NONE, NONE, order[last])
    found = np.full(order.size, NONE)
    found[order] = session
    found = found[count:]
    there = found != NONE
    there[there] = ids[count:][there] == ids[found[there]]
    ends_ms = sessions[END].to_numpy()
    there[there] = lines[EVENT_TIME].to_numpy()[there] < ends_ms[found[there]]
    return np.where(there, found, NONE)


def _ids(frames: Sequence[pl.DataFrame], key: tuple[str, ...]) -> Numbers:
    """Return a number for each key of the lines of frames."""
    _, ids = distinct_keys(pl.concat([frame.select(key) for frame in frames]), key)
    return ids
