"""User code that fails in a service: dead letters, or the end of the service if it asks for it."""

import json
from typing import Any

from tests.kafka.pipelines import failing
from tests.kafka.support.stack import Stack, wait_until

T = 1_700_000_000_000
RECORDS = [("a", 0, 5), ("a", 1, None), ("b", 2, 13), ("a", 3, 4), ("c", 100, 1)]


def records() -> list[tuple[int, None, bytes]]:
    return [
        (0, None, json.dumps({"k": key, "ts": T + at * 1_000, "v": value}).encode())
        for key, at, value in RECORDS
    ]


def letters(stack: Stack) -> list[dict[str, Any]]:
    return [json.loads(value or b"") for _, value in stack.committed(f"{stack.name}.dead-letters")]


def test_rows_and_panes_that_fail_are_dead_letters_once_whatever_is_killed(broker):  # B1
    with Stack(broker, "failing", module=failing) as stack:
        stack.produce(records()[:3])
        stack.start()
        wait_until(lambda: len(letters(stack)) == 2, "dead rows of both operators")
        stack.kill("windowing", "sessions")
        stack.start("windowing", "sessions")
        stack.produce(records()[3:])
        for name in ("windows", "sessions"):
            stack.await_results(name, lambda panes: len(panes) == 1)
            (pane,) = stack.results(name)
            assert (pane["k"], pane["n"], pane["total"]) == ("a", 2, 9)
        wait_until(lambda: len(letters(stack)) == 4, "panes that fail, too")
        assert stack.stop() == {"ingest": 0, "windowing": 0, "sessions": 0}
        found = sorted(letters(stack), key=lambda letter: (letter["offset"], letter["stage"]))
    reason = "total=custom(Total): result: ArithmeticError: 13 is no result"
    assert [(each["stage"], each["topic"], each["key"]) for each in found] == [
        ("sessions", "failing.sessions", f'["b",{T + 2_000}]'),
        ("windows", "failing.windows", f'["b",{T}]'),
        ("sessions", "failing-in", '["a"]'),
        ("windows", "failing-in", '["a"]'),
    ]
    assert [each["reason"] for each in found[:2]] == [reason, reason]
    assert all("total=custom(Total): add: TypeError: " in each["reason"] for each in found[2:])
    assert [each["offset"] for each in found] == [-1, -1, 1, 1]
    assert json.loads(found[2]["value"]) == {"k": "a", "ts": T + 1_000, "v": None}


def test_a_function_that_is_to_stop_ends_the_service_with_the_place_of_the_row(broker):
    options = {"on_error": "stop"}
    with Stack(broker, "stopping", module=failing, options=options) as stack:
        stack.produce(records())
        stack.start()
        assert stack.process("windowing").wait() == 2
        log = stack.log("windowing")
        assert "windows: total=custom(Total): add: TypeError: " in log
        assert "key k='a', topic stopping-in, partition 0, offset 1: correct the function" in log
        assert letters(stack) == []
