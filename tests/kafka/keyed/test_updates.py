"""Chains of results that replace each other on Kafka: what stands is what one process gives."""

from tests.kafka.pipelines.chains import chained
from tests.kafka.support.chains import await_equal, in_parts, in_process, moves, produced
from tests.kafka.support.stack import Stack, wait_until


def test_updates_survive_kills_and_restarts(broker):
    """Each service is killed in the middle of its work, some time after new rows came."""
    options, values = {"updates": True}, moves(seed=7)
    with Stack(broker, "updates-killed", module=chained, options=options) as stack:
        stack.start()
        services = ["windowing", "sessions", "windowing", "sessions"]
        for number, part in enumerate(in_parts(values, len(services) + 1)):
            produced(stack, part)
            if number < len(services):
                wait_until(lambda: bool(stack.results("counts")), "first results")
                stack.kill(services[number])
                stack.start(services[number])
        await_equal(stack, in_process(options, values))
