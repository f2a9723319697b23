"""Dead letters at the command line: listed, shown, and their records sent again exactly once."""

import json
import os
import subprocess
import sys

from confluent_kafka import Producer

from tests.kafka.pipelines import pops
from tests.kafka.support.stack import ROOT, Stack, move, wait_until

T = 1_700_000_000_000


def tidemark(stack: Stack, module, *arguments: str, stdin: bytes = b"", **env: str):
    command = [sys.executable, "-m", "tidemark", "dead-letters", arguments[0], module.__name__]
    return subprocess.run(
        [*command, *arguments[1:]],
        input=stdin,
        capture_output=True,
        check=False,
        env=environment(stack, **env),
    )


def environment(stack: Stack, **env: str) -> dict[str, str]:
    return {
        **os.environ,
        "KAFKA_BOOTSTRAP_SERVERS": stack.config.bootstrap_servers,
        "TEST_PIPELINE": stack.name,
        "PYTHONPATH": str(ROOT),
        **env,
    }


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
        listed = tidemark(stack, pops, "list", "--reason", "SCORE").stdout.decode()
        assert "(sent again " in listed
        assert set(stack.stop().values()) == {0}
