"""Starting afresh on a real broker: everything, a service, one operator; and never by half."""

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from tests.kafka.pipelines import twins
from tests.kafka.support.stack import Stack, last_panes, wait_until
from tidemark.commands.cli import main
from tidemark.errors import ConfigurationError
from tidemark.runtime.client.consumer import EARLIEST, offsets
from tidemark.runtime.client.generations import recorded_epochs
from tidemark.runtime.client.topics import partition_counts
from tidemark.runtime.keyed.fresh_start import Scope, partitions_of
from tidemark.runtime.keyed.reset import Reset
from tidemark.spark.read.live_position import find_live_position
from tidemark.spark.read.ranges import resolve

T = 1_700_000_000_000
END = T + 3_600_000
PARTS = "the state of operator 'pops' has another signature"


def await_results(stack: Stack, name: str, enough: Callable[[list[dict[str, Any]]], bool]) -> None:
    """Wait longer than ``Stack`` does: several services start one after the other."""
    wait_until(lambda: enough(stack.results(name)), f"{name} of {stack.name}")


@contextmanager
def filled(broker: str, name: str) -> Iterator[Stack]:
    """Yield a stack at rest with a window published, a session published, and some open."""
    with Stack(broker, name) as stack:
        for at in (*range(0, 10_000, 1_000), *range(20_000, 30_000, 1_000)):
            stack.move("a", T + at)
        stack.start()
        for output in ("pops", "sessions"):
            await_results(stack, output, lambda panes: len(panes) == 1)
        assert set(stack.stop().values()) == {0}
        yield stack


def reset(stack: Stack, **scope: object) -> None:
    Reset(stack.config, stack.admin, Scope(stack.plan, **scope)).run()  # type: ignore[arg-type]


def adds_up(column: str, total: int) -> Callable[[list[dict[str, Any]]], bool]:
    return lambda panes: sum(last_panes(panes, column).values()) == total


def finish(stack: Stack) -> None:
    """Run until all windows of what was produced are closed, then stop."""
    stack.start()
    stack.move("end", END)
    for output, count in (("pops", "pops"), ("sessions", "moves")):
        await_results(stack, output, adds_up(count, 20))
    assert set(stack.stop().values()) == {0}


def assert_begun_where_logs_begin(stack: Stack) -> None:
    """Assert that a comparison with a replay takes what is left of the logs for all there was."""
    begun = find_live_position(stack.admin, stack.config, stack.plan).earliest
    ranges = resolve(stack.admin, stack.plan, begun)
    assert sum(ranges.begins.values()) > 0
    assert dict(ranges.begins) == offsets(stack.admin, list(begun), EARLIEST)


def totals(stack: Stack) -> tuple[int, int]:
    """Count the rows in all panes of both outputs, those published before a reset too."""
    pops = sum(pane["pops"] for pane in stack.results("pops"))
    return pops, sum(pane["moves"] for pane in stack.results("sessions"))


def test_everything_is_read_again_from_the_raw_topics(broker):
    with filled(broker, "again") as stack:
        reset(stack, delete_results=True)
        assert (stack.results("pops"), stack.results("sessions")) == ([], [])
        assert stack.committed("again.by-player.log") == []
        begun = recorded_epochs(stack.config, stack.admin, stack.plan.generations)
        logs = partitions_of(stack.admin, [log.topic for log in stack.plan.logs])
        assert begun == offsets(stack.admin, logs, EARLIEST)
        assert sum(begun.values()) > 0
        finish(stack)
        assert totals(stack) == (20, 20)
        assert stack.results("pops.late") == []
        assert_begun_where_logs_begin(stack)


@pytest.mark.long
def test_one_operator_reads_its_log_again_and_the_others_go_on(broker):
    """What one writes again stands after what it wrote before; the other writes nothing twice."""
    with Stack(broker, "one", module=twins) as stack:
        for at in (*range(0, 10_000, 1_000), *range(20_000, 30_000, 1_000)):
            stack.move("a", T + at)
        stack.start()
        for output in ("pops", "twins"):
            stack.await_results(output, lambda panes: len(panes) == 1)
        assert set(stack.stop().values()) == {0}
        reset(stack, only=("twins",))
        reset(stack, only=("twins",))  # as after a crash
        stack.start()
        stack.move("end", END)
        stack.await_results("twins", lambda panes: sum(p["pops"] for p in panes) == 30)
        stack.await_results("pops", lambda panes: sum(p["pops"] for p in panes) == 20)
        assert set(stack.stop().values()) == {0}
        assert sum(pane["pops"] for pane in stack.results("pops")) == 20
        stack.start("windowing")  # what it wrote after the reset can be read back
        stack.await_partitions()
        assert stack.stop() == {"windowing": 0}


@pytest.mark.long
def test_state_of_an_operator_that_changed_is_refused_until_it_is_reset(broker, monkeypatch):
    with filled(broker, "changed") as stack:
        stack.start("windowing", TEST_AGGREGATE="more")
        assert stack.process("windowing").wait() == 2
        (line,) = [line for line in stack.log("windowing").splitlines() if "ERROR" in line]
        assert PARTS in line
        assert "is now" in line
        assert "best=" in line
        assert "'tidemark reset tests.kafka.pipelines.pops --operator pops --bootstrap" in line
        stack.kill("windowing")

        monkeypatch.setenv("TEST_AGGREGATE", "more")
        changed = Stack(broker, "changed", TEST_AGGREGATE="more")
        reset(changed, only=("pops",))
        with changed:
            finish(changed)
            panes = changed.results("pops")
        assert sum(pane["pops"] for pane in panes if "best" in pane) == 20


@pytest.mark.long
def test_offsets_that_are_gone_and_state_that_is_gone_stop_until_a_reset(broker):
    with filled(broker, "gone") as stack:
        stack.admin.delete_consumer_groups(["gone.windowing"])["gone.windowing"].result()
        stack.admin.delete_topics(["gone.sessions.changelog"])["gone.sessions.changelog"].result()
        names = partition_counts
        wait_until(lambda: "gone.sessions.changelog" not in names(stack.admin), "the deletion")
        stack.start("windowing", "sessions")
        for service in ("windowing", "sessions"):
            assert stack.process(service).wait() == 2
        assert "nothing is committed, but gone.pops.changelog/" in stack.log("windowing")
        assert "operator 'sessions' is empty, but its log is at commit" in stack.log("sessions")
        assert all("tidemark reset" in stack.log(name) for name in ("windowing", "sessions"))
        stack.kill()
        reset(stack, service="windowing", delete_results=True)
        reset(stack, only=("sessions",), delete_results=True)
        finish(stack)
        assert totals(stack) == (20, 20)


@pytest.mark.long
def test_a_group_with_members_is_left_alone(broker):
    with filled(broker, "busy") as stack:
        stack.start("ingest")
        stack.await_partitions()
        with pytest.raises(ConfigurationError, match=r"group busy\.ingest has members: .* at "):
            reset(stack)
        assert len(stack.results("pops")) == 1


@pytest.mark.long
def test_a_reset_that_dies_before_its_commit_is_completed_by_the_next(broker, monkeypatch):
    with filled(broker, "died") as stack:
        planned = Reset(stack.config, stack.admin, Scope(stack.plan, delete_results=True))
        with monkeypatch.context() as patched:
            patched.setattr(
                "tidemark.runtime.keyed.reset.commit_for_group", lambda *_: sys.exit("killed")
            )
            with pytest.raises(SystemExit):
                planned.run()
        reset(stack, delete_results=True)
        finish(stack)
        assert totals(stack) == (20, 20)


@pytest.mark.long
def test_the_command_says_what_it_will_do_and_asks(broker, monkeypatch, capsys):
    with filled(broker, "asked") as stack:
        arguments = ["tidemark", "reset", "pops", "--bootstrap-server", broker]
        monkeypatch.setattr(sys, "argv", [*arguments, "--service", "windowing"])
        monkeypatch.setattr("tidemark.commands.cli._plan", lambda _: stack.plan)
        monkeypatch.setattr(sys, "stdin", io.StringIO("n\n"))
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 130
        told = capsys.readouterr().out
        assert "read log asked.by-player.log from the first segment on" in told
        assert "keep the records of asked.pops: " in told
        monkeypatch.setattr(sys, "argv", [*arguments, "--service", "windowing", "--yes"])
        with pytest.raises(SystemExit) as ended:
            main()
        assert ended.value.code == 0
        stack.start("windowing")
        stack.await_results("pops", lambda panes: len(panes) == 2)
        first, again = stack.results("pops")
        assert first == again
