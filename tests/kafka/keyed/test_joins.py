"""Joins on Kafka: killed, moved, restored and changed; the results are those of one process."""

from typing import Any

from tests.kafka.pipelines.chains import joined
from tests.kafka.support.chains import produced_among_kills
from tests.kafka.support.joins.shop import SIDES, await_equal, in_process, produced, records
from tests.kafka.support.stack import Stack, wait_until
from tidemark.runtime.keyed.fresh_start import Scope
from tidemark.runtime.keyed.reset import Reset


def test_joins_are_killed_and_their_tasks_move(broker):
    """Joins of all kinds.  Late rows are published once, too; each side has a topic of its own."""
    values = records(seed=1)
    with Stack(broker, "joined", module=joined, options={"kinds": True}) as stack:
        stack.start()
        produced_among_kills(stack, values, produced, "joins")
        await_equal(stack, in_process(values, kinds=True))
        late = [row for side in SIDES for row in late_rows(stack, side)]
        assert 0 < len(late) == len({(row["topic"], row["offset"]) for row in late})
        assert {row["topic"] for row in late} <= {"joined-orders", "joined-payments"}


def late_rows(stack: Stack, side: str) -> list[dict[str, Any]]:
    return stack.results(f"all.late-{'left' if side == 'orders' else 'right'}")


def test_a_join_is_restored_from_its_changelog_and_one_that_changes_is_reset(broker):
    """A new join is built from the log; the others go on (docs/operations.md)."""
    values = records(seed=2, number=200)
    first, second = values[:100], values[100:]
    with Stack(broker, "rejoined", module=joined) as stack:
        stack.start()
        produced(stack, first)
        wait_until(lambda: len(stack.results("all")) > 20, "first results")
        wait_until(lambda: bool(stack.results("sums")), "the first sums, so that they have a state")
        assert set(stack.stop().values()) == {0}
    changed = {"seconds": 5, "semi": True}
    with Stack(broker, "rejoined", 0, joined, changed) as stack:
        stack.start()
        wait_until(lambda: "--operator all " in stack.log("joins"), "the command for the join")
        assert "operator semi has stopped" not in stack.log("joins")
    with Stack(broker, "rejoined", 0, joined, {"semi": True}) as stack:
        stack.start()
        produced(stack, second)
        await_equal(stack, in_process(values, semi=True))
        assert set(stack.stop().values()) == {0}
        scope = Scope(stack.plan, only=("all",), delete_results=True)
        Reset(stack.config, stack.admin, scope).run()
        stack.start()
        await_equal(stack, in_process(values, semi=True))
