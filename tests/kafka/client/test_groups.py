"""Replicas of a service come, go, stand still and die; results are as if nothing had happened."""

import random
import signal
from typing import Any

import pytest

from tests.forked import Process
from tests.kafka.pipelines import impatient
from tests.kafka.support.pops_oracle import END, T, expected_results
from tests.kafka.support.stack import Replica, Stack, duplicates, last_panes, move, wait_until

BY_BROKERS = {"KAFKA_SESSION_TIMEOUT_MS": "", "KAFKA_HEARTBEAT_INTERVAL_MS": ""}
PROTOCOLS = [
    {"TIDEMARK_GROUP_PROTOCOL": "classic"},
    {"TIDEMARK_GROUP_PROTOCOL": "consumer", **BY_BROKERS},
]


def records() -> list[tuple[int, str, int]]:
    draw = random.Random(11)
    moves = [
        (n % 2, f"p{draw.randrange(40)}", T + n * 10 - draw.choice((0, 0, 900, 4_000, 20_000)))
        for n in range(8_000)
    ]
    return [*moves, (0, "end", END), (1, "end", END)]


def feed(stack: Stack, moves: list[tuple[int, str, int]]) -> None:
    stack.produce((partition, None, move(key, at)) for partition, key, at in moves)


def given(stack: Stack, slot: str) -> bool:
    return "was given" in stack.log("windowing", slot)


def name_of(protocol: dict[str, str]) -> str:
    return protocol["TIDEMARK_GROUP_PROTOCOL"]


@pytest.mark.parametrize(
    "protocol", [PROTOCOLS[0], pytest.param(PROTOCOLS[1], marks=pytest.mark.long)], ids=name_of
)
def test_scaling_out_and_in_and_a_kill_change_nothing(broker, protocol):
    moves = records()
    windows, _, late = expected_results(moves)
    name = f"scaled-{name_of(protocol)}"
    with Stack(broker, name, raw_partitions=2, **protocol) as stack:
        stack.start("ingest", "windowing")
        stack.await_partitions()
        feed(stack, moves[:2_000])
        for slot in ("1", "2"):
            stack.start("windowing", slot=slot)
        wait_until(lambda: given(stack, "1") or given(stack, "2"), "a share")
        feed(stack, moves[2_000:4_000])
        stack.kill("windowing", slot="0")
        feed(stack, moves[4_000:6_000])
        stack.start("windowing", slot="0")
        feed(stack, moves[6_000:7_000])
        for slot in ("1", "2"):
            assert stack.stop("windowing", slot=slot) == {"windowing": 0}
        feed(stack, moves[7_000:])
        wait_until(lambda: len(stack.results("pops.late")) >= len(late["pops"]), "late rows")
        wait_until(lambda: last_panes(stack.results("pops"), "pops") == windows, "windows")
        assert duplicates(stack.results("pops")) == []
        assert len(stack.results("pops.late")) == len(late["pops"])


def test_partitions_that_move_are_committed_before_they_go(broker):
    """Nothing else commits here for a minute."""
    rare = {f"TIDEMARK_COMMIT_INTERVAL_{name}MS": "60000" for name in ("", "MAX_")}
    rare["TIDEMARK_TRANSACTION_TIMEOUT_MS"] = "120000"
    with Stack(broker, "settled") as stack:
        stack.start("ingest")
        stack.start("windowing", **rare)
        stack.await_partitions()
        feed(stack, [(0, f"p{n}", T + n) for n in range(40)])
        wait_until(lambda: stack.figures("windowing").get("rows") == "40", "the rows")
        stack.start("windowing", slot="1", **rare)
        wait_until(lambda: given(stack, "1"), "a share")
        feed(stack, [(0, f"p{n}", T + n) for n in range(40)])

        def rows() -> list[int]:
            return [int(stack.figures("windowing", slot).get("rows", 0)) for slot in ("0", "1")]

        wait_until(lambda: sum(rows()) >= 80, "all rows")
        assert set(stack.stop().values()) == {0}
        assert sum(rows()) == 80
        assert min(rows()) > 0


@pytest.mark.long
def test_a_process_that_stood_still_is_fenced_and_its_work_discarded(broker):
    with Stack(broker, "stopped") as stack:
        stack.start("ingest", "windowing")
        stack.await_partitions()
        for at in range(10):
            stack.move("a", T + at * 1_000)
        wait_until(lambda: stack.figures("windowing").get("rows") == "10", "ten rows")
        zombie = stack.process("windowing")
        zombie.send_signal(signal.SIGSTOP)
        stack.move("a", T + 13_000)
        stack.start("windowing", slot="1")
        wait_until(lambda: given(stack, "1"), "its partitions")
        stack.await_results("pops", lambda panes: len(panes) == 1)
        zombie.send_signal(signal.SIGCONT)
        assert zombie.wait() == 1
        del stack.processes[Replica("windowing", "0")]
        stack.move("a", T + 25_000)
        stack.await_results("pops", lambda panes: len(panes) == 2)
        assert [pane["pops"] for pane in stack.results("pops")] == [10, 1]


@pytest.mark.long
@pytest.mark.parametrize("protocol", PROTOCOLS, ids=name_of)
def test_of_two_with_one_id_the_later_wins_once(broker, tmp_path, protocol):
    name = f"twice-{name_of(protocol)}"
    with Stack(broker, name, module=impatient, **protocol) as stack:
        stack.start("ingest", "windowing")
        stack.await_partitions()
        first = stack.process("windowing")
        log = tmp_path / "second.log"
        second = stack.launch(Replica("windowing"), log)
        try:
            wait_until(lambda: "transactional id" in log.read_text(), "the second")
            stack.move("a", T)
            stack.move("a", T + 1_000)
            assert first.wait() == 1
            assert f"{name}.windowing.0): another process" in stack.log("windowing")
            stack.start("windowing")
            assert stack.process("windowing").wait() == 2
            words = f"another process uses id {name}.windowing.0"
            assert words in stack.log("windowing")
            stack.move("end", END)
            stack.await_results("pops", lambda panes: len(panes) == 1)
            assert second.poll() is None
        finally:
            end(second)


def end(process: Process) -> None:
    process.kill()
    process.wait()


def test_a_static_member_that_is_started_again_keeps_its_partitions(broker):
    with Stack(
        broker, "static", TIDEMARK_STATIC_MEMBERSHIP="true", KAFKA_SESSION_TIMEOUT_MS="120000"
    ) as stack:
        stack.start("ingest")
        stack.start("windowing")
        stack.start("windowing", slot="1")
        wait_until(lambda: given(stack, "0") and given(stack, "1"), "a share each")
        words = stack.log("windowing", "1").count
        before = words("was given"), words("gave up")
        stack.kill("windowing", slot="0")
        stack.start("windowing")
        wait_until(lambda: given(stack, "0"), "its partitions", 100)
        words = stack.log("windowing", "1").count
        assert (words("was given"), words("gave up")) == before


def test_a_static_member_cannot_use_the_new_protocol(broker):
    chosen = {"TIDEMARK_STATIC_MEMBERSHIP": "true", "TIDEMARK_GROUP_PROTOCOL": "consumer"}
    env: dict[str, Any] = {**chosen, **BY_BROKERS}
    with Stack(broker, "neither", **env) as stack:
        stack.start("ingest")
        assert stack.process("ingest").wait() == 2
        assert "not possible with TIDEMARK_GROUP_PROTOCOL=consumer" in stack.log("ingest")
