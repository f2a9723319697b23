"""Every format through the services, in process, and with a registry that goes away."""

import os
from functools import partial
from typing import Any

from tests.kafka.support import formats
from tests.kafka.support.encoded import FORMATS, PANES, ROWS, Encoded
from tests.kafka.support.stack import Stack, wait_until
from tests.support.registry import running_registry
from tidemark.testing import InProcess


def panes(found: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    return sorted((pane["id"], pane["start"], pane["n"], pane["v"]) for pane in found)


def published(expected: list[tuple[Any, ...]], found: list[dict[str, Any]]) -> bool:
    return panes(found) == expected


def test_every_format_gives_the_same_panes_on_kafka_and_in_process(broker, monkeypatch):
    with (
        running_registry() as registry,
        Stack(broker, "formats", 1, module=formats, TIDEMARK_SCHEMA_REGISTRY=registry.url) as stack,
    ):
        encoded = Encoded(registry)
        sent = {
            form: [encoded.bad(form), *(encoded.good(form, row) for row in ROWS)]
            for form in FORMATS
        }
        sent["avro"][1:1] = [value for value, _ in encoded.evolved()]
        for form, values in sent.items():
            topic = f"formats-{form}"
            stack.produce([(0, None, value) for value in values], topic)
        stack.start()
        expected = dict.fromkeys(FORMATS, PANES)
        expected["avro"] = [*PANES, ("c", 0, 1, 100.0)]
        for form in FORMATS:
            stack.await_results(form, partial(published, expected[form]))
        letters = {
            (letter["topic"], letter["offset"]): letter for letter in stack.results("dead-letters")
        }
        assert set(stack.stop().values()) == {0}

        monkeypatch.setenv("TIDEMARK_SCHEMA_REGISTRY", registry.url)
        with InProcess(formats.build("formats")) as local:
            for form, values in sent.items():
                local.send(f"formats-{form}", *values)
            for form in FORMATS:
                assert panes(local.panes(form)) == expected[form]
            assert {(each["topic"], each["offset"]) for each in local.dead_letters()} == {*letters}

    refused = [(n, why) for n, (_, why) in enumerate(encoded.evolved(), 1) if isinstance(why, str)]
    assert {*letters} == {
        *((f"formats-{form}", 0) for form in FORMATS),
        *(("formats-avro", offset) for offset, _ in refused),
    }
    assert {letter["stage"] for letter in letters.values()} == {"parse"}
    for offset, why in refused:
        assert why in letters["formats-avro", offset]["reason"]


def test_a_registry_that_is_away_is_waited_for_and_no_record_dies(broker):
    with running_registry() as registry:
        encoded = Encoded(registry)
        registry.fails = [503] * 3
        with Stack(
            broker, "away-at-first", 1, module=formats, TIDEMARK_SCHEMA_REGISTRY=registry.url
        ) as stack:
            for form in FORMATS:
                stack.produce(
                    [(0, None, encoded.good(form, row)) for row in ROWS], f"away-at-first-{form}"
                )
            stack.start()
            wait_until(lambda: "waiting for it" in stack.log("ingest"), "the wait")
            stack.kill("ingest")
            registry.fails = [503]
            stack.start("ingest")
            for form in FORMATS:
                stack.await_results(form, lambda rows: panes(rows) == PANES)
            assert stack.results("dead-letters") == []
            assert set(stack.stop().values()) == {0}


def test_a_source_that_needs_a_registry_ends_ingest_with_status_2_without_one(broker):
    assert "TIDEMARK_SCHEMA_REGISTRY" not in os.environ
    with Stack(broker, "no-registry", 1, module=formats) as stack:
        stack.start("ingest")
        assert stack.process("ingest").wait() == 2
        assert "set TIDEMARK_SCHEMA_REGISTRY to its address" in stack.log("ingest")
