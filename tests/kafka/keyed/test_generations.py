"""Generations on a real broker: they say where the results of the present state begin."""

from tests.kafka.pipelines import twins
from tests.kafka.support.stack import Stack, wait_until
from tidemark.partition import Partition
from tidemark.runtime.client.consumer import LATEST, offsets
from tidemark.runtime.client.generations import GenerationReader
from tidemark.runtime.client.topics import topic_ids
from tidemark.runtime.keyed.fresh_start import Scope
from tidemark.runtime.keyed.reset import Reset

T = 1_700_000_000_000


def poll_until_new(reader: GenerationReader) -> None:
    wait_until(reader.poll, "a generation")


def test_a_generation_begins_at_the_first_start_and_at_a_reset(broker):
    with Stack(broker, "generations", module=twins) as stack:
        reader = GenerationReader(stack.config, stack.admin, stack.plan.generations)
        assert reader.newest == {}
        for at in (*range(0, 10_000, 1_000), 30_000):
            stack.move("a", T + at)
        stack.start()
        for output in ("pops", "twins"):
            stack.await_results(output, lambda panes: len(panes) == 1)
        assert set(stack.stop().values()) == {0}

        poll_until_new(reader)
        topics = ["generations.twins", "generations.twins.late"]
        firsts = reader.of_operator("twins")
        for first in firsts.values():
            assert (first.number, first.begun) == (0, 0)
            assert first.begins == dict.fromkeys(topics, 0)
            assert first.topic_ids == topic_ids(stack.admin, topics)

        Reset(stack.config, stack.admin, Scope(stack.plan, only=("twins",))).run()
        poll_until_new(reader)
        seconds = reader.of_operator("twins")
        ends = offsets(stack.admin, [Partition(topics[0], n) for n in firsts], LATEST)
        for number, second in seconds.items():
            assert second.number > 1_700_000_000_000
            assert second.begins[topics[0]] == ends[Partition(topics[0], number)]
        assert sum(ends.values()) > 0
        assert {each.number for each in reader.of_operator("pops").values()} == {0}
        reader.close()
