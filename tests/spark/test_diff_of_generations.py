"""A comparison looks at the present generation of results, and at operators that have caught up."""

import pytest

from tests.kafka.support.changes import await_expected, deployed, moves
from tidemark.commands.replay_view import diff_lines
from tidemark.errors import ConfigurationError
from tidemark.runtime.keyed.fresh_start import Scope
from tidemark.runtime.keyed.reset import Reset
from tidemark.spark.replay.jobs import diff


@pytest.mark.long
def test_results_after_a_reset_of_one_operator_are_equal(broker, sessions):
    with deployed(broker, "compared", {"a": {}, "b": {}}, first=True) as stack:
        stack.start()
        moves(stack, 0, 100)
        await_expected(stack, "a", "b")
        assert set(stack.stop().values()) == {0}
        Reset(stack.config, stack.admin, Scope(stack.plan, operator="b")).run()
        with pytest.raises(
            ConfigurationError, match="operator b has stopped, or has not caught up"
        ):
            diff(stack.config, stack.plan, sessions, 1)
        stack.start()
        moves(stack, 100, 200)
        await_expected(stack, "a", "b")
        assert set(stack.stop().values()) == {0}
        result = diff(stack.config, stack.plan, sessions, 1)
        assert result.equal, "\n".join(diff_lines(result))
        assert sum(topic.left for topic in result.topics) > 60
