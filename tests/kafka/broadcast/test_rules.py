"""Rules on Kafka: killed and restored; what they find and drop is what one process does."""

import json

from tests.kafka.broadcast.rooms import (
    BAD,
    dropped,
    ended,
    in_process,
    on_kafka,
    produced,
    read_values,
    rule_values,
)
from tests.kafka.pipelines.chains import rule_matches
from tests.kafka.support.chains import in_parts
from tests.kafka.support.stack import Stack, wait_until
from tidemark.commands.why.command import moves_on
from tidemark.monitor.holders import Json
from tidemark.monitor.stats_reader import latest_stats
from tidemark.monitor.status import status, why_open
from tidemark.runtime.wall_clock import now_ms


def clocks(stack: Stack) -> list[Json]:
    """Return the clocks of matches as `tidemark why open` knows them."""
    stats = latest_stats(stack.config, stack.admin, stack.plan.stats, now_ms() - 60_000)
    return why_open(status(stack.name, stats, (), now_ms()), "found", None)


def test_rules_are_killed_and_restored_in_the_middle(broker):
    """The first run is killed in the middle; a second one goes on from changelogs."""
    readings, rules = read_values(seed=1), rule_values(seed=2)
    expected, ends = in_process("rule-matches", readings, rules)
    assert min(map(len, expected.values())) > 10
    assert {reason.split()[-1] for _, reason in ends} == {"changed", "ended"}
    parts, changes = in_parts(readings, 5), in_parts(rules, 5)
    with Stack(broker, "rule-matches", module=rule_matches) as stack:
        produced(stack, "rules", next(changes))
        stack.start()
        stack.await_partitions()
        for victim in ("patterns", "ingest", "patterns"):
            produced(stack, "readings", next(parts))
            produced(stack, "rules", next(changes))
            stack.kill(victim)
            stack.start(victim)
        produced(stack, "readings", next(parts))
        assert set(stack.stop().values()) == {0}
        produced(stack, "readings", next(parts))
        produced(stack, "rules", next(changes))
        stack.start()
        ended(stack)
        wait_until(lambda: on_kafka(stack) == expected, "all matches")
        wait_until(lambda: len(dropped(stack)) == len(ends), "all that rules drop")
        assert set(dropped(stack)) == ends
        last = {each["id"]: each["rule"] for each in map(json.loads, rules) if each["rule"] != BAD}
        count = sum(text != "" for text in last.values())
        wait_until(
            lambda: [each["active_rules"] for each in clocks(stack)] == [count] * 2,
            "the rules that count",
        )
        for clock in clocks(stack):
            assert f"{stack.name}-r" in moves_on(stack.plan, clock), clock
        letters = [
            json.loads(value or b"") for _, value in stack.committed(stack.plan.dead_letters)
        ]
        bad = [offset for offset, value in enumerate(rules) if json.loads(value)["rule"] == BAD]
        for stage in ("found", "nearly"):
            places = [each["offset"] for each in letters if each["stage"] == stage]
            assert sorted(places) == bad
        assert set(stack.stop().values()) == {0}
