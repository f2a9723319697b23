"""Results in Confluent's wire format through Kafka, into a sink."""

import sqlite3
from contextlib import closing

from tests.kafka.pipelines import avros
from tests.kafka.support.stack import Stack, wait_until
from tests.support.registry import running_registry
from tidemark.embedded.broker import free_port
from tidemark.why.reading import Reading

T = 1_772_438_400_000


def test_results_have_the_registrys_format_and_the_sink_reads_it(broker):
    with running_registry() as registry, Stack(broker, "numbered", module=avros) as stack:
        database = stack.folder / "results.db"
        stack.start(TIDEMARK_SCHEMA_REGISTRY=registry.url)
        stack.start(
            "sink", TIDEMARK_SCHEMA_REGISTRY=registry.url, TIDEMARK_SINK=f"sqlite:{database}"
        )
        for second in (0, 1, 30):
            stack.move("a", T + 1_000 * second)
        wait_until(lambda: bool(stack.committed(f"{stack.name}.pops")), "a pane")

        (_, value), *_ = stack.committed(f"{stack.name}.pops")
        assert value is not None
        assert value[0] == 0
        number = int.from_bytes(value[1:5], "big")
        assert f'"name": "{stack.name}_pops"' in registry.schemas[number - 7]
        assert set(registry.subjects) == {"numbered.pops-value", "numbered.pops.late-value"}

        def rows() -> list[tuple[str, int]]:
            if not database.exists():
                return []
            with closing(sqlite3.connect(database)) as connection:
                tables = connection.execute("SELECT name FROM sqlite_master").fetchall()
                if ("pops",) not in tables:
                    return []
                return connection.execute("SELECT player, pops FROM pops").fetchall()

        wait_until(lambda: rows() == [("a", 2)], "the row")
        reading = Reading(stack.config, stack.admin, stack.plan)
        published = reading.published(stack.plan.operators[0].results)
        assert [(each.fields["player"], each.fields["pops"]) for each in published] == [("a", 2)]


def test_a_registry_that_is_away_or_refuses_ends_the_service_with_one_line(broker):
    with running_registry() as registry, Stack(broker, "refused-here", module=avros) as stack:
        away = f"http://127.0.0.1:{free_port()}"
        stack.start("windowing", TIDEMARK_SCHEMA_REGISTRY=away)
        assert stack.process("windowing").wait() == 1
        assert f"windowing: schema registry {away}" in stack.log("windowing")
        registry.refuses = 409, "incompatible with an earlier schema"
        stack.start("windowing", TIDEMARK_SCHEMA_REGISTRY=registry.url)
        assert stack.process("windowing").wait() == 2
        assert "refused-here.pops-value: incompatible" in stack.log("windowing")
