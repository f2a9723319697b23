"""A rule at work on the rows of a log partition: its pattern, and its partial matches."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from tidemark.core.operators.patterns.automaton import Automaton
from tidemark.core.operators.patterns.engines import Engines
from tidemark.core.operators.patterns.findings import REFUSED
from tidemark.core.operators.patterns.in_time import TimedFrame, refused_frame
from tidemark.core.operators.patterns.operator import too_many
from tidemark.core.operators.patterns.partial import unpacked
from tidemark.core.operators.patterns.results import MatchResults
from tidemark.core.operators.patterns.state import OPEN, PARTIAL, Matching
from tidemark.core.operators.ports import LATE, ROWS


@dataclass(frozen=True)
class Matcher:
    """What a rule does; ``kind``: of the findings that are results.

    ``engines``: find them; ``results``: shows them.
    """

    engines: Engines
    results: MatchResults
    kind: int

    @property
    def _automaton(self) -> Automaton:
        return self.engines.automaton

    def found(
        self, rule: Any, rows: pl.DataFrame, until_ms: int, matching: Matching
    ) -> Mapping[str, TimedFrame]:
        """Return what rows and the timers before ``until_ms`` decide, by port."""
        found = self.engines.findings_until(until_ms, rows, matching)
        results, refused = found.of_kind(self.kind), found.of_kind(REFUSED)
        shown = self.results.frame(results, matching.rows, rule)
        reason = too_many(self._automaton.max_partial)
        late = refused_frame(refused.first_refs, matching.rows, reason)
        return {ROWS: TimedFrame(shown, results.at_ms), LATE: TimedFrame(late, refused.at_ms)}

    def dropped(self, at_ms: int, reason: str, matching: Matching) -> Mapping[str, TimedFrame]:
        """Return the first rows of the partial matches that end with their rule, as late rows.

        Those of partial matches that were matches before are left out.
        """
        lists = [piece[OPEN][PARTIAL] for piece in matching.partial.snapshot()]
        partials = unpacked(pl.concat(lists)) if lists else []
        complete = self._automaton.complete
        firsts = {each.refs[0] for some in partials for each in some if not each.closed & complete}
        late = refused_frame(np.array(sorted(firsts), np.int64), matching.rows, reason)
        return {LATE: TimedFrame(late, np.full(late.height, at_ms))}
