"""User code that fails, live and replayed on Spark: the same rows and panes are left out."""

import json

from tests.kafka.pipelines import failing
from tests.kafka.support.stack import Stack
from tests.spark.support.live import caught_up
from tidemark.commands.replay_view import diff_lines
from tidemark.spark.replay.jobs import diff

T = 1_700_000_000_000
VALUES = [13, 0, None, 0, None, 13, 0, 1, 0]


def test_a_replay_leaves_out_the_rows_and_panes_on_which_user_code_failed_live(broker, sessions):
    records = (
        (0, None, json.dumps({"k": f"k{n % 5}", "ts": T + n * 700, "v": VALUES[n % 9]}).encode())
        for n in range(400)
    )
    with Stack(broker, "failing-replay", module=failing) as stack:
        stack.produce(records)
        stack.start()
        stack.await_results("sessions", lambda panes: len(panes) > 5)
        caught_up(stack)
        assert set(stack.stop().values()) == {0}
        letters = [
            json.loads(value or b"") for _, value in stack.committed(stack.plan.dead_letters)
        ]
        assert {letter["topic"] for letter in letters} >= {
            "failing-replay-in",
            "failing-replay.windows",
        }
        result = diff(stack.config, stack.plan, sessions, 3)
        assert result.equal, "\n".join(diff_lines(result))
        assert sum(topic.left for topic in result.topics) > 20
