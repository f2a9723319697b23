"""`tidemark why open` beside services on a broker."""

import json
import subprocess
import sys
from typing import TypeAlias

from tests.kafka.pipelines import pops
from tests.kafka.support.stack import Replica, Stack, move, wait_until

Ended: TypeAlias = "subprocess.CompletedProcess[str]"

T = 1_772_438_400_000


def why_open(stack: Stack, *options: str) -> Ended:
    command = [sys.executable, "-m", "tidemark", "why", "open", pops.__name__, *options]
    env = stack.environment(Replica("why"), {})
    return subprocess.run(command, capture_output=True, check=False, env=env, text=True)


def test_the_source_that_holds_a_window_open_is_named_with_what_moves_it_on(broker):
    with Stack(broker, "asked-why", raw_partitions=2) as stack:
        nobody = why_open(stack)
        assert nobody.returncode == 2
        assert "asked-why.stats" in nobody.stderr
        stack.start("ingest", "windowing")
        moves = [(0, None, move("a", T + 1_000 * second)) for second in range(30)]
        stack.produce([(1, None, move("a", T)), *moves])
        holder = f"{stack.raw}/1"

        def is_named() -> bool:
            told = why_open(stack, "--operator", "pops", "--end", "2026-03-02T08:00:10Z")
            return f"{holder} holds it for " in told.stdout

        wait_until(is_named, "the source that holds the windows")
        told = why_open(stack, "--operator", "pops")
        head, *lines = told.stdout.splitlines()
        assert " ".join(head.split()) == "operator partition clock open windows it waits for"
        assert all(line.startswith("pops ") for line in lines[:-1])
        assert lines[-1].startswith(
            f"a later record of {holder} moves it on, or no record of it for "
        )
        early = why_open(stack, "--operator", "pops", "--end", "2026-03-02T07:00:00Z")
        assert early.stdout == "no clock is before 2026-03-02T07:00:00.000+00:00\n"
        shown = [json.loads(line) for line in why_open(stack, "--json").stdout.splitlines()]
        assert {each["held_by"] for each in shown if each["operator"] == "pops"} == {holder}

        assert set(stack.stop().values()) == {0}
        gone = why_open(stack)
        assert gone.returncode == 2
        assert "asked-why.stats: no process runs, or none writes stats" in gone.stderr
