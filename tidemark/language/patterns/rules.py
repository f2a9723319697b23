"""The matches of rules: patterns that are the versions of a broadcast table."""

import polars as pl

from tidemark.core.operators.joins.table_join import Wait
from tidemark.core.operators.patterns.results import RULE
from tidemark.core.operators.ports import shown_key
from tidemark.core.rows.expression import as_written, require_column
from tidemark.core.rows.options import require_choice, require_count
from tidemark.core.time.duration import Duration, positive_ms
from tidemark.core.windows.window import not_too_long
from tidemark.errors import PipelineError
from tidemark.language.joins.broadcast import BroadcastTable, copied
from tidemark.language.joins.sides import two_sides
from tidemark.language.keyed import KeyedStream
from tidemark.language.patterns.matches import Matches, require_rows
from tidemark.plan.logical import MAX_RULES, KeyedNode, RulesStage


def matches_of_rules(
    stream: KeyedStream,
    broadcast: BroadcastTable,
    skip: object,
    max_partial: int,
    *,
    text: str | None,
    max_within: Duration | None,
    wait: Wait,
) -> Matches:
    """Return the matches of rules in the rows of each key; see ``KeyedStream.match``."""
    if skip is not None:
        raise PipelineError("match(skip): each rule says its own; leave it out")
    if text is None:
        raise PipelineError("match(rule): missing; name the column of the table with the rules")
    if max_within is None:
        raise PipelineError('match(max_within): missing; give the longest time of a rule, as "1h"')
    require_count(max_partial, "match(max_partial)")
    require_choice(wait, Wait, "match(wait)")
    rows, table = two_sides(stream, broadcast.table.stream)
    require_rows(rows)
    if RULE in shown_key(rows.key):
        raise PipelineError(
            f"match: column {RULE!r} of the key clashes with a field of every match of rules; "
            "rename it in key_by()"
        )
    _require_table(table, text)
    key = {name: rows.node.columns[name] for name in rows.key}
    copies = KeyedNode(copied(stream.dataflow, table.node, key), table.key)
    stage = RulesStage(
        (rows, copies),
        text,
        broadcast.table.keep_ms,
        wait,
        broadcast.table.deleted,
        broadcast.max_rows or MAX_RULES,
        not_too_long(positive_ms(max_within, "match(max_within)"), "match(max_within)"),
        max_partial,
        (),
        {},
    )
    return Matches(stream.dataflow, stage)


def _require_table(table: KeyedNode, text: str) -> None:
    """Raise PipelineError if a table has no name or no text of a rule."""
    if len(table.key) != 1:
        raise PipelineError(
            f"match: the key of the rules is {', '.join(table.key)}; one column names a rule"
        )
    (name,) = table.key
    dtype = table.node.columns[name]
    if not (dtype == pl.String or dtype.is_integer()):
        raise PipelineError(
            f"match: the key {name!r} of the rules is {dtype}; a rule has a text or an integer as "
            "its name"
        )
    require_column(text, table.node.columns, "match(rule)")
    found = table.node.columns[text]
    if found != pl.String:
        raise PipelineError(
            f"match(rule={as_written(text)}): it is {found}; a rule is JSON in a text column"
        )
