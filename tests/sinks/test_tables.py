"""Which tables a sink is asked to deliver."""

import pytest

from examples.game import game
from tidemark.errors import ConfigurationError
from tidemark.sinks.table import chosen, tables_of

TABLES = tables_of(game.plan())


def test_all_tables_are_delivered_unless_some_are_named():
    assert chosen(TABLES, "") == TABLES
    named = chosen(TABLES, "play_sessions, pops_per_minute,play_sessions")
    assert [table.name for table in named] == ["play_sessions", "pops_per_minute"]


def test_a_table_that_is_none_is_a_mistake():
    with pytest.raises(
        ConfigurationError, match=r"no table 'pops'; there are dead_letters, pops_per_"
    ):
        chosen(TABLES, "pops")
