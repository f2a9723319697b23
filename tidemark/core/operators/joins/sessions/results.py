"""The results of final sessions: pairs, and rows without a partner."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import polars as pl

from tidemark.core.aggregates.basic import ORDER as ROW_ORDER
from tidemark.core.aggregates.lists import flattened
from tidemark.core.operators.identity import Ids, ids_in_windows, ids_of_pairs, ids_of_rows
from tidemark.core.operators.joins.new_rows import columns_of
from tidemark.core.operators.joins.results import END_MS, START_MS, Results, named
from tidemark.core.operators.rows import EVENT_TIME_MS, ID
from tidemark.core.state.blocks import lines_at
from tidemark.core.state.keyed_lines import Lines, Mask, Numbers
from tidemark.core.time.segment import EVENT_TIME
from tidemark.core.windows.pane import END, START


class Members(NamedTuple):
    """Rows of one side of sessions, by session, event time and identity.

    ``rows``: the columns of ROW_COLUMNS and of the side.  ``session``: the number of the session of
    each row.  ``ids``: of the rows in their sessions.
    """

    rows: pl.DataFrame
    session: Numbers
    ids: Ids

    def at(self, index: Numbers) -> "Members":
        """Return the rows at positions ``index``."""
        return Members(lines_at(self.rows, index), self.session[index], self.ids.at(index))

    @classmethod
    def of(cls, due: Lines, name: str) -> "Members":
        """Return the rows that sessions have collected in an aggregate."""
        session, collected = flattened(due.partials[f"{name}.values"])
        fields = collected.struct.unnest()
        places = [fields[field].alias(column) for field, column in ROW_ORDER.items()]
        rows = pl.DataFrame([*places, *fields["value"].struct.unnest()])
        ids = ids_in_windows(ids_of_rows(rows), due.facts[START][session])
        order = np.lexsort((ids.low, rows[EVENT_TIME].to_numpy(), session))
        return cls(rows, session, ids).at(order)


@dataclass(frozen=True)
class SessionResults(Results):
    """Makes the results of final sessions."""

    @property
    def instants(self) -> tuple[str, ...]:
        """The columns of results that are times, in ms."""
        return START_MS, END_MS, EVENT_TIME_MS

    def pairs(self, left: Members, right: Members) -> tuple[pl.DataFrame, Mask]:
        """Return the values of pairs of rows, and for which of them the condition holds."""
        keys = columns_of(left.rows, self.key)
        values = keys.hstack([*named(left.rows, self.left), *named(right.rows, self.right)])
        return values, self.is_met(values)

    def of_pairs_in(
        self, due: Lines, values: pl.DataFrame, ids: Ids, session: Numbers
    ) -> pl.DataFrame:
        """Return results with the bounds of their sessions; ``ids``: of results."""
        start_ms, end_ms = due.facts[START][session], due.facts[END][session]
        bounds = [pl.Series(START_MS, start_ms), pl.Series(END_MS, end_ms)]
        return self.frame(values.hstack(bounds), ids, end_ms - 1)

    def alone_in(
        self, due: Lines, sides: Sequence[Members], matched: Sequence[Mask]
    ) -> pl.DataFrame:
        """Return the results of one row: those without a partner, or with "semi" with one.

        They are in order of event time and identity.
        """
        shown = {"inner": (), "right": (1,), "full": (0, 1)}.get(self.how, (0,))
        parts = [pl.DataFrame(schema=self.columns)]
        for number in shown:
            some = matched[number] if self.how == "semi" else ~matched[number]
            members = sides[number].at(np.flatnonzero(some))
            side = (self.left, self.right)[number]
            values = columns_of(members.rows, self.key).hstack(named(members.rows, side))
            ids = ids_of_pairs(*((members.ids, None) if number == 0 else (None, members.ids)))
            parts.append(self.of_pairs_in(due, values, ids, members.session))
        return pl.concat(parts).sort(EVENT_TIME_MS, ID)


def counts_before(left: Members, right: Members, *, self_join: bool) -> tuple[Numbers, Numbers]:
    """Return how many rows of the other side are in the session of each row, up to its time."""
    is_right = np.repeat((False, True), (left.session.size, right.session.size))
    session = np.concatenate([left.session, right.session])
    at_ms = np.concatenate([each.rows[EVENT_TIME].to_numpy() for each in (left, right)])
    order = np.lexsort((at_ms, session))
    of_right, of_session, time_ms = is_right[order], session[order], at_ms[order]
    first = np.searchsorted(of_session, of_session)
    ends = np.append((of_session[1:] != of_session[:-1]) | (time_ms[1:] != time_ms[:-1]), True)
    until = np.flatnonzero(ends)[np.cumsum(ends) - ends]
    rights, lefts = np.cumsum(of_right), np.cumsum(~of_right)
    before = np.empty(order.size, np.int64)
    before[order] = np.where(
        of_right,
        lefts[until] - lefts[first] + ~of_right[first],
        rights[until] - rights[first] + of_right[first],
    )
    own, others = before[: left.session.size], before[left.session.size :]
    if self_join:  # a row is no partner of itself
        own = own - np.isin(left.ids.low, right.ids.low)
        others = others - np.isin(right.ids.low, left.ids.low)
    return own, others
