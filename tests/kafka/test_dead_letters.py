"""Dead letters at the command line: listed, shown, and their records sent again exactly once."""

import json
import os
import select
import subprocess
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import BinaryIO, TypeAlias

from confluent_kafka import Producer

from tests import forked
from tests.kafka.pipelines import changing, failing, pops
from tests.kafka.support.stack import ROOT, Stack, move, wait_until

Ended: TypeAlias = "subprocess.CompletedProcess[bytes]"

T = 1_700_000_000_000
TYPES = ("int", "str")


def tidemark(stack: Stack, module: ModuleType, *arguments: str, **env: str) -> Ended:
    """Run a command on dead letters to its end."""
    return forked.tidemark(*words(module, *arguments), env=environment(stack, **env))


def words(module: ModuleType, name: str, *others: str) -> tuple[str, ...]:
    return ("dead-letters", name, module.__name__, *others)


def reset(stack: Stack, module: ModuleType, **env: str) -> None:
    done = forked.tidemark("reset", module.__name__, "--yes", env=environment(stack, **env))
    assert done.returncode == 0, done.stderr


def environment(stack: Stack, **env: str) -> dict[str, str]:
    return {
        **os.environ,
        "KAFKA_BOOTSTRAP_SERVERS": stack.config.bootstrap_servers,
        "TEST_PIPELINE": stack.name,
        "PYTHONPATH": str(ROOT),
        **env,
    }


@contextmanager
def shown(stack: Stack, errors: Path, *command: str) -> Iterator[tuple[forked.Process, BinaryIO]]:
    """Yield a command and the pipe that it prints to; kill it in the end."""
    pipe = errors.with_suffix(".pipe")
    os.mkfifo(pipe)
    process = forked.Forked(command, environment(stack), forked.Files(errors, pipe))
    try:
        with opened(pipe, process) as printed:
            yield process, printed
    finally:
        process.kill()
        process.wait()


def opened(pipe: Path, process: forked.Process) -> BinaryIO:
    """Open a pipe once its process prints; if that ends first, the pipe is at its end."""
    file = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)  # else it waits for the process to open it
    printing = select.poll()
    printing.register(file, select.POLLIN)
    while not printing.poll(100) and process.poll() is None:
        pass
    os.set_blocking(file, True)
    return open(file, "rb")


@contextmanager
def standing_still(
    stack: Stack, file: Path, errors: Path, *arguments: str
) -> Iterator[forked.Process]:
    """Yield a command that stands still in its transaction until ``file`` exists."""
    program = "tests.kafka.support.stalling_retry", str(file)
    with shown(stack, errors, *program, *words(pops, *arguments)) as (process, printed):
        assert printed.readline() == b"stands still\n"
        yield process


def bad(player: str, at: int, score: str = "many") -> bytes:
    return json.dumps({"player": player, "at": at, "score": score}).encode()


def test_letters_are_listed_shown_edited_and_sent_again(broker, tmp_path):
    with Stack(broker, "letters", module=pops) as stack:
        producer = Producer({"bootstrap.servers": broker})
        producer.produce(
            stack.raw, bad("ann", T + 1_000), b"k1", 0, timestamp=T + 5, headers=[("by", b"web")]
        )
        assert producer.flush(30) == 0
        stack.produce([(0, None, b"[1]"), (0, None, move("bob", T + 2_000))])
        stack.start()
        wait_until(lambda: len(stack.results("dead-letters")) == 2, "two dead letters")

        listed = tidemark(stack, pops, "list")
        assert listed.returncode == 0, listed.stderr
        head, first, second, count = listed.stdout.decode().splitlines()
        assert head.split() == ["letter", "written", "stage", "record", "reason"]
        assert first.endswith("letters-moves/0/0  column score: expected int, got str")
        assert "letters-moves/0/1  " in second
        assert count == "2 letters"
        grouped = tidemark(stack, pops, "list", "--by", "stage", "--json").stdout
        assert json.loads(grouped)["letters"] == 2
        assert tidemark(stack, pops, "list", "--offsets", "7..").stdout == (
            b"letter  written  stage  record  reason\n0 letters\n"
        )
        number = first.split()[0]
        shown = tidemark(stack, pops, "show", number).stdout.decode()
        assert shown == tidemark(stack, pops, "show", "letters-moves/0/0").stdout.decode()
        assert "source     letters-moves, declared in tests/kafka/pipelines/pops.py:" in shown
        assert 'column     score: Int64; the record has "many"' in shown
        assert "key        k1" in shown
        assert "header     by = web" in shown

        refused = tidemark(stack, pops, "retry", number)
        assert refused.returncode == 1
        assert b"parse: column score: expected int, got str" in refused.stdout
        dry = tidemark(stack, pops, "retry", number, "--set", "score=4", "--dry-run")
        assert (dry.returncode, b"would be sent" in dry.stdout) == (0, True)
        assert len(stack.committed(stack.raw)) == 3
        sent = tidemark(stack, pops, "retry", number, "--set", "score=4")
        assert sent.returncode == 0, sent.stderr
        assert b"sent to the end of letters-moves/0" in sent.stdout
        again = tidemark(stack, pops, "retry", "letters-moves/0/0", "--set", "score=4")
        assert (again.returncode, b"it was sent again at" in again.stdout) == (1, True)
        (tmp_path / "fix.py").write_text(
            "import json\n"
            "def fix(value, letter):\n"
            "    if letter['offset'] != 1:\n"
            "        return None\n"
            f"    return json.dumps({{'player': 'ann', 'at': {T + 3_000}, 'score': 2}})\n"
        )
        through = tidemark(
            stack,
            pops,
            "retry",
            "--all",
            "--yes",
            "--through",
            "fix:fix",
            PYTHONPATH=f"{tmp_path}:{ROOT}",
        )
        assert through.returncode == 0, through.stdout
        assert through.stdout.decode().splitlines()[-1] == (
            "1 sent again, 1 sent or read again before"
        )
        stack.produce([(0, None, move("end", T + 60_000))])
        stack.await_results("pops", lambda panes: len(panes) >= 2)
        scores = {pane["player"]: (pane["pops"], pane["score"]) for pane in stack.results("pops")}
        assert scores == {"ann": (2, 6), "bob": (1, 1)}
        marked = tidemark(stack, pops, "list", "--reason", "SCORE").stdout.decode()
        assert "(sent again " in marked
        assert set(stack.stop().values()) == {0}


def test_a_command_that_is_killed_or_overtaken_in_its_transaction_has_sent_nothing(
    broker, tmp_path
):
    with Stack(broker, "letters-killed", module=pops) as stack:
        stack.produce([(0, None, bad("ann", T + 1_000))])
        stack.start("ingest")
        wait_until(lambda: len(stack.results("dead-letters")) == 1, "the dead letter")
        retry = ("retry", "letters-killed-moves/0/0", "--set", "score=4")

        with standing_still(stack, tmp_path / "never", tmp_path / "killed", *retry) as killed:
            killed.kill()
        goes_on, errors = tmp_path / "goes on", tmp_path / "errors"
        with standing_still(stack, goes_on, errors, *retry) as overtaken:
            sent = tidemark(stack, pops, *retry)
            assert sent.returncode == 0, sent.stderr
            goes_on.touch()
            assert overtaken.wait() == 1
        assert "another process sends dead letters of this pipeline again" in errors.read_text()

        values = [json.loads(value or b"") for _, value in stack.committed(stack.raw)]
        assert [each["score"] for each in values] == ["many", 4]
        assert len(stack.committed(stack.plan.retried)) == 1
        again = tidemark(stack, pops, *retry)
        assert (again.returncode, b"it was sent again at" in again.stdout) == (1, True)
        stack.stop("ingest")


def test_many_letters_are_sent_once_each_whenever_the_command_is_killed(broker, tmp_path):
    count = 2_300
    with Stack(broker, "letters-many", raw_partitions=2, module=pops) as stack:
        stack.produce((at % 2, None, bad("ann", T + at)) for at in range(count))
        stack.start("ingest")
        wait_until(lambda: len(stack.results("dead-letters")) == count, "the dead letters")
        retry = ("retry", "--all", "--yes", "--set", "score=1")
        for lines in (1, 400, 700):
            errors = tmp_path / f"after {lines}"
            with shown(stack, errors, "tidemark", *words(pops, *retry)) as (process, printed):
                for _ in range(lines):
                    assert printed.readline()
                process.kill()
        last = tidemark(stack, pops, *retry)
        assert last.returncode == 0, last.stderr
        assert b" sent or read again before" in last.stdout
        values = [json.loads(value or b"") for _, value in stack.committed(stack.raw)]
        good = Counter(each["at"] - T for each in values if each["score"] == 1)
        assert good == Counter(range(count))
        stack.stop("ingest")


def test_a_reset_reads_what_was_sent_again_and_sends_nothing_twice(broker):
    with Stack(broker, "letters-reset", module=pops) as stack:
        stack.produce([(0, None, bad("ann", T)), (0, None, move("end", T + 60_000))])
        stack.start()
        wait_until(lambda: len(stack.results("dead-letters")) == 1, "the dead letter")
        assert tidemark(stack, pops, "retry", "0", "--set", "score=4").returncode == 0
        wait_until(lambda: len(stack.results("pops.late")) == 1, "the record, which is late")
        assert set(stack.stop().values()) == {0}
        reset(stack, pops)
        stack.start()
        wait_until(lambda: len(stack.results("dead-letters")) == 2, "the same dead letter")
        newest = json.loads(tidemark(stack, pops, "list", "-n", "1", "--json").stdout)
        assert newest["retried_ms"] is not None
        again = tidemark(stack, pops, "retry", str(newest["letter"]), "--set", "score=4")
        assert (again.returncode, b"it was sent again at" in again.stdout) == (1, True)
        assert set(stack.stop().values()) == {0}
        assert len(stack.committed(stack.raw)) == 3


def test_a_row_of_operators_is_sent_again_only_if_none_has_taken_it(broker):
    with Stack(broker, "letters-rows", module=failing) as stack:
        rows = [("a", 0, 5), ("a", 1, None), ("b", 2, 13), ("c", 100, 1)]
        stack.produce(
            (0, None, json.dumps({"k": key, "ts": T + at * 1_000, "v": value}).encode())
            for key, at, value in rows
        )
        stack.start()
        wait_until(lambda: len(stack.results("dead-letters")) == 4, "dead rows and panes")
        shown = tidemark(stack, failing, "show", "letters-rows-in/0/1").stdout.decode()
        assert shown.count("reason     total=custom(Total): add: TypeError: ") == 2
        assert "next       correct the function, then tidemark dead-letters retry" in shown
        refused = tidemark(stack, failing, "retry", "letters-rows-in/0/1")
        assert refused.returncode == 1
        assert b"add: TypeError: " in refused.stdout
        panes = json.loads(
            tidemark(stack, failing, "list", "--topic", "letters-rows.windows", "--json").stdout
        )
        pane = tidemark(stack, failing, "retry", str(panes["letter"]))
        assert pane.returncode == 1
        assert b"'tidemark reset tests.kafka.pipelines.failing --operator windows'" in pane.stdout

        sent = tidemark(stack, failing, "retry", "letters-rows-in/0/1", "--set", "v=6")
        assert sent.returncode == 0, sent.stdout
        assert sent.stdout.decode().splitlines()[-1] == (
            "1 sent again, 1 with the record of another letter"
        )
        assert len(stack.committed(stack.raw)) == 5
        assert set(stack.stop().values()) == {0}
        taken = tidemark(
            stack,
            failing,
            "retry",
            "letters-rows-in/0/1",
            "--again",
            "--dry-run",
            TEST_OPTIONS='{"plain": true}',
        )
        assert b"plain took rows of this record" in taken.stdout


def test_what_a_reset_has_read_with_a_program_that_takes_it_is_not_sent(broker):
    before, after = ({"TEST_OPTIONS": json.dumps({"columns": {"x": kind}})} for kind in TYPES)
    options = {"columns": {"x": TYPES[0]}}
    with Stack(broker, "letters-changed", module=changing, options=options) as stack:
        records = [{"player": "ann", "at": T, "score": 1, "x": "text"}, {"player": 1}]
        stack.produce((0, None, json.dumps(each).encode()) for each in records)
        stack.start()
        wait_until(lambda: len(stack.results("dead-letters")) == 2, "the dead letters")
        assert tidemark(stack, changing, "retry", "0", "--dry-run", **before).returncode == 1
        stack.stop()
        reset(stack, changing, **after)

        taken = tidemark(stack, changing, "retry", "0", **after)
        assert taken.returncode == 1
        assert b"not sent; a reset at 20" in taken.stdout
        assert b"read the record again, and the present program takes it as it is" in taken.stdout
        edited = f"at={T}"
        sent = tidemark(
            stack, changing, "retry", "1", "--set", edited, "--set", "player=b", **after
        )
        assert sent.returncode == 0, sent.stdout
        again = tidemark(stack, changing, "retry", "0", "--again", "--dry-run", **after)
        assert (again.returncode, b"would be sent" in again.stdout) == (0, True)
        assert len(stack.committed(stack.raw)) == 3
