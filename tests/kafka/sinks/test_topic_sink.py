"""Results in topics of another name, on the pipeline's own cluster and on one that is not."""

from itertools import count
from typing import Any

import pytest

from tests.kafka.support.stack import Stack, last_panes, move, wait_until
from tests.sinks.contract import SinkContract, opened
from tests.sinks.feeds import PANES, batch, pane
from tests.sinks.places import Place, records_held
from tidemark.embedded.broker import free_port
from tidemark.errors import ConfigurationError
from tidemark.partition import Partition
from tidemark.plan.topics import Topic
from tidemark.runtime.client import clients, topics
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.range_reader import read
from tidemark.runtime.config import Config
from tidemark.sinks.sink import RefusedError, UnavailableError
from tidemark.sinks.topic import OtherClusterSink, TopicSink

T = 1_700_000_000_000
OUTPUTS = ("pops", "sessions", "pops.late", "dead-letters")  # all but sessions.late
_prefixes = count()


@pytest.fixture
def places(broker):
    """Make topics of a new prefix, each time."""
    config = Config(bootstrap_servers=broker)
    admin = clients.admin(config)

    def made() -> Place:
        prefix = f"copy{next(_prefixes)}"

        def rows(table):
            at = Partition(f"{prefix}.{table.topic}", 0)
            begin, end = (offsets(admin, [at], which)[at] for which in (EARLIEST, LATEST))
            return records_held(table, [m.value() or b"" for m in read(config, {at: (begin, end)})])

        return Place(lambda: OtherClusterSink(f"kafka://{broker}/{prefix}"), rows)

    return made


@pytest.fixture
def place(places):
    return places()


class TestOtherCluster(SinkContract):
    def test_a_record_that_its_topic_does_not_take_is_refused(self, broker, place):
        admin = clients.admin(Config(bootstrap_servers=broker))
        topics.ensure(admin, [Topic("small.game.pops", 1, {})], -1)
        sink = opened(Place(lambda: OtherClusterSink(f"kafka://{broker}/small"), place.rows))
        large = pane("ann" * 500_000, 0, 1)
        with pytest.raises(
            RefusedError, match=r"small\.game\.pops takes \d+ bytes, the record has"
        ):
            sink.write([batch([pane("bob", 0, 1), large])])
        sink.close()

    def test_a_topic_with_other_partitions_is_refused(self, broker, place):
        admin = clients.admin(Config(bootstrap_servers=broker))
        topics.ensure(admin, [Topic("wide.game.pops", 3, {})], -1)
        with pytest.raises(ConfigurationError, match="3 partitions where the pipeline needs 1"):
            opened(Place(lambda: OtherClusterSink(f"kafka://{broker}/wide"), place.rows))


def test_a_cluster_that_is_away_is_tried_again():
    sink = OtherClusterSink(f"kafka://127.0.0.1:{free_port()}/copy?message.timeout.ms=500")
    sink._targets._most_bytes["copy.game.pops"] = 2**20
    for _ in range(2):
        with pytest.raises(UnavailableError, match=r"Kafka at 127\.0\.0\.1"):
            sink.write([batch([pane("ann", 0, 1)])])
    sink.close()


@pytest.mark.parametrize("address", ["kafka:", "kafka://localhost:9092", "kafka:a/b"])
def test_an_address_without_a_prefix_is_refused(address):
    kind = OtherClusterSink if "//" in address else TopicSink
    with pytest.raises(ConfigurationError, match="is not a valid prefix"):
        kind(address if "//" in address else address.removeprefix("kafka:"))


def test_a_property_that_no_client_has_is_a_mistake(broker):
    sink = OtherClusterSink(f"kafka://{broker}/copy?no.such.property=1")
    with pytest.raises(ConfigurationError, match=r"TIDEMARK_SINK: .*no\.such\.property"):
        sink.prepare([PANES])


@pytest.mark.long
def test_topics_on_the_own_cluster_have_each_record_once_through_kills(broker):
    tables = "pops, sessions, pops_late, dead_letters"
    env: dict[str, Any] = {"TIDEMARK_SINK": "kafka:copy", "TIDEMARK_SINK_TABLES": tables}
    with Stack(broker, "twins", **env) as stack:
        stack.start(*stack.plan.services(), "sink")
        for part in range(3):
            stack.produce(_moves(part * 500, part * 500 + 500))
            before = part * 20
            _await_more(stack, before)
            if part in (0, 1):
                stack.kill("sink")
                stack.start("sink")
        stack.produce([(0, None, b"pop!"), (0, None, move("end", T + 3_600_000))])
        wait_until(lambda: _copies(stack, "dead-letters") != [], "the dead letter")
        players = {f"p{n}" for n in range(7)}
        last = {(player, T + 70_000) for player in players}
        stack.await_results("pops", lambda panes: last <= last_panes(panes, "pops").keys())
        stack.await_results("sessions", lambda panes: players <= {p["player"] for p in panes})
        assert set(stack.stop(*stack.plan.services()).values()) == {0}
        wanted = {name: len(stack.committed(f"{stack.name}.{name}")) for name in OUTPUTS}
        wait_until(lambda: {n: len(_copies(stack, n)) for n in OUTPUTS} == wanted, "all copies")
        wait_until(lambda: stack.figures("sink").get("lag") == "0", "a sink without lag")
        assert stack.stop("sink") == {"sink": 0}
        for output in OUTPUTS:
            copies = sorted(_copies(stack, output))
            assert copies == sorted(stack.committed(f"{stack.name}.{output}")), output
            assert copies
        found = {name for name in topics.partition_counts(stack.admin) if "copy.twins." in name}
        assert found == {f"copy.twins.{output}" for output in OUTPUTS}


def _await_more(stack: Stack, count: int) -> None:
    wait_until(lambda: len(_copies(stack, "pops")) > count, "copies")


def _copies(stack: Stack, output: str):
    name = f"copy.{stack.name}.{output}"
    return stack.committed(name) if name in topics.partition_counts(stack.admin) else []


def _moves(begin: int, end: int):
    """Moves of some players, each tenth late, each hundredth too late."""
    for n in range(begin, end):
        behind_ms = 60_000 if n % 100 == 99 else 4_000 if n % 10 == 9 else 0
        yield 0, None, move(f"p{n % 7}", T + n * 50 - behind_ms, n)
