"""Patterns on Kafka: killed, moved, restored and changed; the results are those of one process."""

from tests.kafka.pipelines.chains import matched
from tests.kafka.rows.matches import await_equal, in_process, on_kafka, produced, readings
from tests.kafka.support.chains import produced_among_kills
from tests.kafka.support.stack import Stack, wait_until
from tidemark.runtime.keyed.fresh_start import Scope
from tidemark.runtime.keyed.reset import Reset


def test_patterns_are_killed_and_their_tasks_move(broker):
    """Matches in Avro, timeouts, absences and windows over matches; late rows come once, too."""
    values = readings(seed=1)
    options = {"more": True, "avro": True}
    with Stack(broker, "matched", module=matched, options=options) as stack:
        stack.start()
        produced_among_kills(stack, values, produced, "patterns")
        await_equal(stack, in_process("matched", values, **options))
        late = stack.results("cooled.late")
        assert 0 < len(late) == len({row["offset"] for row in late})


def test_a_pattern_is_restored_from_its_changelog_and_one_that_changes_is_reset(broker):
    """Other values go on with the state (docs/operations.md, "Changing a pipeline")."""
    values = readings(seed=2, number=300)
    first, second = values[:150], values[150:]
    with Stack(broker, "rematched", module=matched) as stack:
        stack.start()
        produced(stack, first)
        wait_until(lambda: len(stack.results("fires")) > 20, "first results")
        assert set(stack.stop().values()) == {0}
    with Stack(broker, "rematched", 0, matched, {"seconds": 5}) as stack:
        stack.start()
        wait_until(lambda: "--operator fires" in stack.log("patterns"), "the command for a reset")
    with Stack(broker, "rematched", 0, matched) as stack:
        stack.start()
        produced(stack, second)
        await_equal(stack, in_process("rematched", values))
        assert set(stack.stop().values()) == {0}
    with Stack(broker, "rematched", 0, matched, {"more": True}) as stack:
        stack.start()
        expected = in_process("rematched", values, more=True)
        wait_until(lambda: on_kafka(stack)["silent"] == expected["silent"], "a new pattern")
        assert "--operator fires" not in stack.log("patterns")
        assert set(stack.stop().values()) == {0}
        scope = Scope(stack.plan, only=("fires",), delete_results=True)
        Reset(stack.config, stack.admin, scope).run()
        stack.start()
        await_equal(stack, expected)
