"""The toy operator as a pipeline (tests/support/toy.py), and one that its results feed.

``first`` has two raw topics, orders and payments, and publishes balances.  ``second`` reads the
topic of balances by what its port says: columns and the event time of a row; final rows alone.
"""

import json
import os
from dataclasses import replace
from typing import Any

from tests.support.toy import BALANCES, COLUMNS, NAME, ORDERS, PAYMENTS, VALUES, balances
from tidemark import Pipeline, bounded, col, count, punctuated, tumbling
from tidemark import sum as total
from tidemark.core.operators.ports import DEAD
from tidemark.plan.physical import OperatorPlan, Plan, PortPlan

_TYPES: dict[str, Any] = {"String": str, "Int64": int, "Boolean": bool}


class ToyPipeline(Pipeline):
    """A pipeline whose plan has the toy operator in place of those that make its log."""

    def plan(self) -> Plan:
        """Return the plan of sources and log, with the toy over both streams of the log."""
        plan = super().plan()
        operator = balances({side: f"{self.name}-{side}" for side in VALUES})
        topic = f"{self.name}.{BALANCES}"
        ports = tuple(
            PortPlan(port, plan.dead_letters, "json")
            if port.kind == DEAD
            else PortPlan(port, topic if port.name == BALANCES else f"{topic}.{port.name}", "json")
            for port in operator.outputs
        )
        toy = OperatorPlan(
            service="windowing",
            log=plan.logs[0].topic,
            operator=operator,
            ports=ports,
            changelog=f"{topic}.changelog",
            dead_letters=plan.dead_letters,
            description="balances of orders and payments",
            state_signature={"operator": NAME},
        )
        return replace(plan, operators=(toy,))


def build(name: str, stage: int = 1) -> Pipeline:
    """Return the pipeline of the toy under a name of its own; or the one that its results feed."""
    return second(name) if stage == 2 else first(name)


def first(name: str) -> Pipeline:
    """Return the pipeline of the toy: orders and payments in, balances out."""
    pipeline = ToyPipeline(name, partitions=2)
    for side in (ORDERS, PAYMENTS):
        schema = {column: _TYPES[str(dtype)] for column, dtype in COLUMNS[side].items()}
        stream = pipeline.source(
            f"{name}-{side}",
            schema=schema,
            event_time="at",
            watermark=bounded("2s"),
            idle_after="1h",
        ).key_by("account")
        stream.window(tumbling("10s")).aggregate(n=count()).to(side)
    return pipeline


def second(name: str) -> Pipeline:
    """Return a pipeline over the balances of the pipeline ``name``: final ones, in 20 s windows."""
    (operator,) = first(name).plan().operators
    port = operator.results.port
    schema = {column: _TYPES[str(dtype)] for column, dtype in port.columns.items()}
    time, shift_ms = port.row_time
    pipeline = Pipeline(f"{name}-second", partitions=2)
    finals = (
        pipeline.source(
            operator.results.topic,
            schema=schema,
            event_time=col(time) + shift_ms,
            watermark=punctuated(when=col("final")),
            idle_after="1h",
        )
        .filter(col("final"))
        .select("account", "balance")
    )
    finals.key_by("account").window(tumbling("20s")).aggregate(
        windows=count(), balance=total("balance")
    ).to("totals")
    return pipeline


pipeline = build(
    os.environ.get("TEST_PIPELINE", "toy"), **json.loads(os.environ.get("TEST_OPTIONS", "{}"))
)
