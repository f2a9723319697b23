"""The operator of rules: patterns that are the versions of a broadcast table.

See docs/semantics.md, "Rules".  Each text of a rule has partial matches of its own.  Rows wait as
for one pattern; then each rule that counts at their times takes them.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from tidemark.core.operators.joins.broadcast.bound import require_bound
from tidemark.core.operators.joins.judged_versions import judged_versions
from tidemark.core.operators.joins.table_join import Wait
from tidemark.core.operators.joins.version_runs import DELETED
from tidemark.core.operators.joins.versions import Versions
from tidemark.core.operators.operator import Frames, Numbers
from tidemark.core.operators.patterns.engines import Engines
from tidemark.core.operators.patterns.findings import MATCH, TIMEOUT
from tidemark.core.operators.patterns.in_time import InTime, TimedFrame, TimedFrames, late_frame
from tidemark.core.operators.patterns.pattern import Pattern
from tidemark.core.operators.patterns.results import MatchResults
from tidemark.core.operators.patterns.rules.matcher import NO_ROWS, FittingRows, Matcher
from tidemark.core.operators.patterns.rules.matchers import Matchers
from tidemark.core.operators.patterns.rules.periods import Period, periods_of
from tidemark.core.operators.patterns.rules.state import ActiveRule, ActiveRules, RuleState
from tidemark.core.operators.patterns.state import Matching
from tidemark.core.operators.patterns.step_values import StepValue
from tidemark.core.operators.ports import (
    BY_TIME,
    DEAD,
    LATE,
    REASON,
    ROWS,
    Port,
    dead_port,
    late_port,
)
from tidemark.core.operators.waiting_rows import WaitingRows
from tidemark.core.rows.copies import own_rows
from tidemark.core.state.block_store import IN_MEMORY, BlockStore
from tidemark.core.state.keyed_lines import Hashes, hashes_of
from tidemark.core.time.row_watermarks import ORDER
from tidemark.core.time.segment import EVENT_TIME, NEVER_MS, WATERMARK
from tidemark.errors import PipelineError

LATE_RULES = f"{LATE}-rules"
"""Port of rules that are older than the table keeps versions."""

EVER_MS = 2**62
"""How long a rule counts that no other replaces, if it counts on arrival."""

_EARLIEST_MS = -(2**61)


@dataclass(frozen=True)
class Rules:
    """The table of rules.

    Args:
        columns: with types.
        rule: the key column, with the name of the rule.
        text: the column with the rule as JSON.
        keep_ms: how much older than a row a rule may be.
        wait: from when a rule counts: "event_time" or "arrival".
        pattern: of a text; it raises PipelineError if the text is no rule.
        deleted: over the columns, whether a version deletes the rule.
        max_rows: the number of rules that the table may have.
    """

    columns: Mapping[str, pl.DataType]
    rule: str
    text: str
    keep_ms: int
    pattern: Callable[[str], Pattern]
    wait: Wait = "event_time"
    deleted: pl.Expr | None = None
    max_rows: int = 1000


@dataclass(frozen=True)
class RuleMatch(InTime):
    """Matches of the patterns that rules say, in the rows of each key.

    Args:
        sides: names of the inputs: of the rows, and of the rules.
        rules: the table of rules.
        key: names of the key columns of rows.
        columns: of the rows, with types.
        steps: the names of steps that ``values`` are of.
        values: what a result shows of its rows, by name.
        max_partial: the number of partial matches of a rule and key.
        timeouts: whether partial matches whose time is over are the results.
        operator: its name, for dead letters and errors.
    """

    sides: tuple[str, str]
    rules: Rules
    key: tuple[str, ...]
    columns: Mapping[str, pl.DataType]
    steps: tuple[str, ...]
    values: Mapping[str, StepValue]
    max_partial: int = 1000
    timeouts: bool = False
    operator: str = ""

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The ports of results, of late rows, of late rules, and of rules that are refused."""
        table_key, columns = (self.rules.rule,), self.rules.columns
        return (
            self._results(()).port(ROWS),
            late_port(self.key, self.columns),
            late_port(table_key, columns, LATE_RULES),
            dead_port(table_key, columns, self.operator),
        )

    @property
    def can_batch(self) -> bool:
        """Whether the clock before a segment shows nowhere: a rule counts on arrival from it on."""
        return self.rules.wait == "event_time"

    def _results(self, steps: tuple[str, ...]) -> MatchResults:
        """Return what shows the results of a pattern; it may lack steps that ``values`` are of."""
        names = (*steps, *(each for each in self.steps if each not in steps))
        values = {
            name: value
            if value.step is None
            else value._replace(step=names.index(self.steps[value.step]))
            for name, value in self.values.items()
        }
        return MatchResults(
            self.key, names, values, self.columns, self.rules.columns[self.rules.rule]
        )

    def _matcher(self, text: str) -> Matcher:
        pattern = self.rules.pattern(text)
        engines = Engines.of(pattern, self.max_partial, self.key, self.columns)
        return Matcher(engines, self._results(pattern.names), TIMEOUT if self.timeouts else MATCH)

    def open(self, store: BlockStore = IN_MEMORY, /) -> RuleState:
        """Return empty state."""

        def matching(matcher: Matcher) -> Matching:
            within_ms = matcher.engines.automaton.pattern.within_ms
            return Matching.empty(self.key, self.stored, within_ms, store)

        rule, text = self.rules.rule, self.rules.text
        columns = {name: self.rules.columns[name] for name in (rule, text)}
        return RuleState(
            Versions((rule,), columns, self._keep_ms, 0, store),
            WaitingRows(self.columns, store),
            ActiveRules(columns[rule], Matchers(self._matcher, self.columns), matching),
        )

    @property
    def _keep_ms(self) -> int:
        return EVER_MS if self.rules.wait == "arrival" else self.rules.keep_ms

    def active_rules(self, state: RuleState) -> int:
        """Return the number of rules that count at the clock."""
        return len(state.rules)

    def record(self, state: RuleState, now_ms: int, clock_ms: int) -> None:  # noqa: ARG002
        """Take the clock before a segment, from which on its rules count on arrival."""
        state.clock_ms = clock_ms

    def process(self, sides: Frames, state: RuleState) -> Frames:
        """Let rows wait, and add versions of rules."""
        rows, table = (sides[name] for name in self.sides)
        late = state.waiting.take(rows.drop(ORDER))
        versions, old = self._judged(table, state)
        versions, dead = self._parted(versions)
        state.versions.add(versions.drop(ORDER))
        rule, most = self.rules.rule, self.rules.max_rows
        require_bound(state.versions, (rule,), most, self.operator)
        return {LATE: late_frame(late, BY_TIME), LATE_RULES: own_rows(old), DEAD: own_rows(dead)}

    def _judged(self, table: pl.DataFrame, state: RuleState) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the versions that count, and the late ones."""
        if self.rules.wait == "arrival":
            at_ms = max(state.clock_ms, _EARLIEST_MS)
            instants = pl.lit(at_ms, pl.Int64), pl.lit(NEVER_MS, pl.Int64)
            table = table.with_columns(instants[0].alias(EVENT_TIME), instants[1].alias(WATERMARK))
        return judged_versions(table, self._keep_ms, 0, self.rules.deleted)

    def _parted(self, versions: pl.DataFrame) -> tuple[pl.DataFrame, pl.DataFrame]:
        """Return the versions that are rules or delete one, and the others with the reason."""
        reasons = self._reasons(versions)
        is_dead = reasons.is_not_null()
        dead = versions.filter(is_dead).with_columns(reasons.drop_nulls().alias(REASON))
        return versions.filter(~is_dead), dead.drop(DELETED)

    def _reasons(self, versions: pl.DataFrame) -> pl.Series:
        """Return why each version is refused, null if it is not."""
        rule, text = versions[self.rules.rule], versions[self.rules.text]
        wrong: dict[str, str] = {}
        for each in text.filter(~versions[DELETED]).drop_nulls().unique(maintain_order=True):
            try:
                self.rules.pattern(each)
            except PipelineError as error:
                wrong[each] = f"rule: {error}"
        found = text.replace_strict(
            [*wrong], [*wrong.values()], default=None, return_dtype=pl.String()
        )
        nothing = pl.when(text.is_null()).then(pl.lit(f"rule: {text.name} is null"))
        unnamed = pl.when(rule.is_null()).then(pl.lit(f"rule: {rule.name} is null"))
        counts = ~versions[DELETED]
        return pl.select(pl.when(counts).then(pl.coalesce(unnamed, nothing, found))).to_series()

    def taken(self, state: RuleState, before_ms: int, stop_ms: int) -> TimedFrames:
        """Return the results that rows and timers before ``stop_ms`` decide, by port."""
        rows = self.due_rows(state, stop_ms)
        parts = [*self._found(rows, state, before_ms, stop_ms)]
        return {port.name: self._in_order(port, parts) for port in self.outputs[:2]}

    def _found(
        self, rows: pl.DataFrame, state: RuleState, before_ms: int, stop_ms: int
    ) -> Iterator[TimedFrames]:
        """Yield the results of each rule, one rule after the other."""
        if before_ms == stop_ms:  # a version may still come that counts from there on
            return
        spans, active = state.versions.spans(), state.rules.by_rule()
        periods = periods_of(spans, self.rules.rule, self.rules.text, before_ms, stop_ms)
        texts = {period.text for each in periods.values() for period in each}
        texts.update(rule.text for rule in active.values())
        taken = _TakenRows(rows, state.rules.matchers.fitting(rows, texts), self.key)
        for name in sorted({*active, *periods}):
            rule, reached_ms = active.get(name), before_ms
            for period in periods.get(name, ()):
                if rule is not None and (period.from_ms, period.text) != (reached_ms, rule.text):
                    has_changed = period.from_ms == reached_ms
                    yield self._dropped(state, rule, reached_ms, has_changed=has_changed)
                    rule = None
                if rule is None:
                    rule = state.rules.begin(name, period.text)
                yield taken.found(rule, period)
                reached_ms = period.until_ms
            if rule is not None and reached_ms < stop_ms:
                yield self._dropped(state, rule, reached_ms, has_changed=False)

    @staticmethod
    def _dropped(
        state: RuleState, rule: ActiveRule, at_ms: int, *, has_changed: bool
    ) -> TimedFrames:
        """End a rule; return its partial matches as late rows."""
        reason = f"rule {rule.rule} {'changed' if has_changed else 'ended'}"
        found = rule.matcher.dropped(at_ms, reason, rule.matching)
        state.rules.end(rule)
        return found

    def _in_order(self, port: Port, parts: list[TimedFrames]) -> TimedFrame:
        """Return the results of a port by time, and those of one time by rule."""
        found = [part[port.name] for part in parts if port.name in part]
        some = [each for each in found if each.at_ms.size]
        if not some:
            return self._nothing[port.name]
        every = TimedFrame.joined(some)
        order = np.argsort(every.at_ms, kind="stable")
        return TimedFrame(every.frame[order], every.at_ms[order])

    @cached_property
    def _nothing(self) -> TimedFrames:
        """No results, by port."""
        none = np.empty(0, np.int64)
        late = self.open().waiting.take(pl.DataFrame(schema=self.stored))
        results = pl.DataFrame(schema=self.outputs[0].columns)
        return {ROWS: TimedFrame(results, none), LATE: TimedFrame(late_frame(late, ""), none)}


@dataclass(frozen=True)
class _TakenRows:
    """Rows in order of event time, and for each text the rows that fulfil one of its conditions."""

    rows: pl.DataFrame
    fitting: Mapping[str, FittingRows]
    key: tuple[str, ...]

    def found(self, rule: ActiveRule, period: Period) -> TimedFrames:
        """Return what a rule finds in a period."""
        fitting = self.fitting.get(period.text, NO_ROWS)
        if not fitting.row.size and not rule.matching.open_windows():
            return {}
        first, stop = np.searchsorted(self._at_ms, (period.from_ms, period.until_ms)).tolist()
        some = fitting.within(first, stop)
        some = rule.matcher.going_on(some, self._hashes[first:stop], rule.matching)
        return rule.matcher.found(
            rule.rule, self.rows[first:stop], some, period.until_ms, rule.matching
        )

    @cached_property
    def _at_ms(self) -> Numbers:
        at_ms: Numbers = self.rows[EVENT_TIME].to_numpy()
        return at_ms

    @cached_property
    def _hashes(self) -> Hashes:
        """The hash of each row's key."""
        return hashes_of(self.rows[list(self.key)])
