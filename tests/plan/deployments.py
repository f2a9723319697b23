"""Plans of outputs that read streams of one raw topic, and the record of their deployments."""

from typing import NamedTuple

from tidemark import Pipeline, bounded, col, count, tumbling
from tidemark import sum as sum_
from tidemark.plan.changes import changes
from tidemark.plan.physical import Plan
from tidemark.plan.placement import placed
from tidemark.plan.program import Program, decode_program, encode_program, program_of
from tidemark.plan.recording import recorded_after


class Rows(NamedTuple):
    """The stream of an output: its key, and the filter and the further column of its rows.

    ``reads``: whether the output sums that column.
    """

    key: str = "id"
    least: int = 0
    column: str = ""
    other: bool = False  # united with another raw topic
    reads: bool = False

    @property
    def stream(self) -> "Rows":
        return self._replace(reads=False)


def planned(outputs: dict[str, Rows]) -> Plan:
    """Return the plan of a pipeline; outputs with the same stream share it."""
    pipeline = Pipeline("p", partitions=2)
    schema = {"at": int, "id": str, "city": str, "v": int}
    raw, other = (
        pipeline.source(topic, schema=schema, event_time="at", watermark=bounded("2s"))
        for topic in ("raw", "other")
    )
    streams = {}
    for name, rows in outputs.items():
        if rows.stream not in streams:
            stream = raw.filter(col("v") >= rows.least)
            stream = stream.union(other) if rows.other else stream
            stream = stream.with_columns(**{rows.column: col("v")}) if rows.column else stream
            streams[rows.stream] = stream.key_by(rows.key)
        sums = {"total": sum_(rows.column)} if rows.reads else {}
        windows = streams[rows.stream].window(tumbling("1m"))
        windows.aggregate(n=count(), **sums).to(name)
    if not any(rows.other for rows in outputs.values()):
        other.key_by("v").window(tumbling("1m")).aggregate(n=count()).to("keeps-the-source")
    return pipeline.plan()


def places(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return stream and log of each output."""
    return {
        each.name: (*each.operator.streams, each.log)
        for each in plan.operators
        if each.name != "keeps-the-source"
    }


def recorded(*deployments: dict[str, Rows]) -> Program:
    """Return the record after deployments that ingest accepts."""
    record = program_of(planned(deployments[0]))
    for outputs in deployments[1:]:
        _, record = deployed(record, planned(outputs))
    return record


A, B, C = Rows(), Rows(least=1), Rows(least=2)
CITY = Rows(key="city")
WIDE, READS = Rows(column="w"), Rows(column="w", reads=True)


def record_of(plan: Plan) -> Program:
    """Return the record of a first deployment, as it is read again."""
    return decode_program(encode_program(program_of(plan)))


def deployed(before: Program, plan: Plan) -> tuple[Plan, Program]:
    """Return a plan as it is placed, and the record after it; it must be accepted."""
    there = placed(plan, before)
    program = program_of(there)
    assert changes(before, program) == []
    return there, recorded_after(before, program)
