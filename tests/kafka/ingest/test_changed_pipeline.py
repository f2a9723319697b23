"""A pipeline that changes on a real broker: docs/operations.md, "Changing a pipeline"."""

import sys
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from tests.kafka.pipelines import evolving
from tests.kafka.support.stack import Stack, move, wait_until
from tidemark.commands.cli import main
from tidemark.runtime.client.consumer import LATEST, offsets
from tidemark.runtime.keyed.fresh_start import partitions_of

T = 1_700_000_000_000
END = T + 3_600_000


def deployed(broker: str, name: str, raw_partitions: int = 1, **options: Any) -> Stack:
    """Return a stack of a pipeline with options; its topics that are missing are made."""
    return Stack(broker, name, raw_partitions, evolving, options)


def fill(stack: Stack, count: int, partitions: int = 1) -> None:
    """Produce moves of players of two teams, one a second in each partition."""
    stack.produce(
        (partition, None, move(f"{'ab'[n % 2]}{n % 7}", T + n * 1_000))
        for n in range(count)
        for partition in range(partitions)
    )


def finish(stack: Stack, partitions: int = 1) -> None:
    """Produce a move at the end of each partition, so that all windows before it close."""
    stack.produce((n, None, move("end", END)) for n in range(partitions))


def pops(stack: Stack, output: str) -> dict[tuple[str, int], int]:
    """Return the last pane of each key and window that has closed."""
    key = output.rpartition("-")[2]
    return {
        (pane[key], pane["start"]): pane["pops"]
        for pane in stack.results(output)
        if pane["start"] < END - 60_000
    }


def expected(count: int, key: str, partitions: int = 1) -> dict[tuple[str, int], int]:
    """Return the panes of ``fill``."""
    found: Counter[tuple[str, int]] = Counter()
    for n in range(count):
        player, at = f"{'ab'[n % 2]}{n % 7}", T + n * 1_000
        found[player if key == "player" else player[:1], at - at % 10_000] += partitions
    return dict(found)


def await_pops(stack: Stack, output: str, panes: Mapping[tuple[str, int], int]) -> None:
    wait_until(lambda: pops(stack, output) == panes, f"{output} of {stack.name}")


def ends(stack: Stack) -> dict[Any, int]:
    """Return the ends of all logs."""
    logs = [log.topic for log in stack.plan.logs]
    return offsets(stack.admin, partitions_of(stack.admin, logs), LATEST)


def run(monkeypatch: pytest.MonkeyPatch, stack: Stack, command: str) -> None:
    """Run a command as a line of text gives it, without a question."""
    monkeypatch.setenv("KAFKA_BOOTSTRAP_SERVERS", stack.config.bootstrap_servers)
    monkeypatch.setattr("tidemark.commands.cli._plan", lambda _: stack.plan)
    monkeypatch.setattr(sys, "argv", command.split())
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0


@pytest.mark.parametrize(
    ("change", "words"),
    [
        pytest.param(
            {"score": "float"}, "the type of score was Int64, is now Float64", id="type"
        ),  # A6
        pytest.param({"least": 1}, "the choice of rows was all rows", id="filter"),
        pytest.param({"delay": "3s"}, "was bounded(2s), is now bounded(3s)", id="watermark"),
    ],
)
def test_another_program_is_refused_before_it_writes(broker, monkeypatch, change, words):
    name = f"refused-{words[-4:].strip('()s ')}"
    with deployed(broker, name) as stack:
        fill(stack, 30)
        stack.start()
        wait_until(lambda: len(pops(stack, "by-player")) > 5, "the first panes")
        assert set(stack.stop().values()) == {0}
        before = ends(stack)

        with deployed(broker, name, raw_partitions=0, **change) as changed:
            changed.start("ingest")
            assert changed.process("ingest").wait() == 2
            (line,) = [line for line in changed.log("ingest").splitlines() if "ERROR" in line]
            changed.kill("ingest")
            assert words in line
            assert ends(stack) == before

            stack.start()  # the earlier program goes on at once
            finish(stack)
            await_pops(stack, "by-player", expected(30, "player"))
            assert set(stack.stop().values()) == {0}

            advice = line[line.index("'tidemark reset") + 1 :].partition("'")[0]
            run(monkeypatch, changed, f"{advice} --delete-results --yes")
            changed.start()
            await_pops(changed, "by-player", expected(30, "player"))
            assert set(changed.stop().values()) == {0}


def test_a_new_key_is_built_from_raw_records_while_the_others_go_on(
    broker, monkeypatch, capsys
):  # A3
    count, partitions = 3_000, 2
    with deployed(broker, "keyed", partitions) as stack:
        fill(stack, count, partitions)
        stack.start()
        wait_until(lambda: len(pops(stack, "by-player")) > 500, "the first panes")
        assert set(stack.stop().values()) == {0}
        with deployed(broker, "keyed", 0, keys=("player", "team")) as changed:
            run(monkeypatch, changed, f"tidemark plan P --bootstrap-server {broker}")
            assert "log keyed.by-team.log is new: ingest builds it" in capsys.readouterr().out
            changed.start("ingest")
            wait_until(lambda: "lacks earlier rows" in changed.log("ingest"), "the backfill")
            changed.kill("ingest")
            changed.start("ingest")
            wait_until(lambda: "was given" in changed.log("ingest"), "the partitions")
            changed.kill("ingest")
            changed.start()
            finish(changed, partitions)
            await_pops(changed, "by-team", expected(count, "team", partitions))
            await_pops(changed, "by-player", expected(count, "player", partitions))
            assert changed.results("by-team.late") == changed.results("by-player.late") == []
            assert set(changed.stop().values()) == {0}


def test_a_changed_key_is_a_new_log(broker):  # A2
    with deployed(broker, "rekeyed") as stack:
        fill(stack, 100)
        stack.start()
        wait_until(lambda: len(pops(stack, "by-player")) > 5, "the first panes")
        assert set(stack.stop().values()) == {0}
        with deployed(broker, "rekeyed", 0, keys=("team",)) as changed:
            changed.start()
            finish(changed)
            await_pops(changed, "by-team", expected(100, "team"))
            assert set(changed.stop().values()) == {0}


def test_a_source_that_is_gone_holds_no_window(broker):
    with deployed(broker, "fewer", topics=2) as stack:
        fill(stack, 30)
        stack.produce([(0, None, move("a", T))], "fewer-others")
        stack.start()
        wait_until(lambda: len(pops(stack, "by-player")) > 5, "the first panes")
        assert set(stack.stop().values()) == {0}
        with deployed(broker, "fewer", 0) as changed:
            changed.start()
            finish(changed)
            await_pops(changed, "by-player", expected(30, "player"))
            assert set(changed.stop().values()) == {0}
