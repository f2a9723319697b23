"""A program that changes: its pipeline as source text, its expected results, its changes."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

NAME = "changes"
RAW = f"{NAME}-raw"
T = 1_700_000_040_000  # the beginning of a minute and of five
MARK = "mark"
"""The key of the records that let windows close; its own windows are not compared."""

Record = dict[str, Any]
Panes = dict[tuple[str, int], tuple[int | None, ...]]
"""Values by key and start of the window."""


@dataclass(frozen=True)
class Output:
    """One output: its name, its key column, its window, whether it sums tips, and its filter."""

    name: str
    key: str
    minutes: int
    tips: bool = False
    least: int = 0

    @property
    def values(self) -> tuple[str, ...]:
        """The names of the aggregates."""
        return ("n", "total", "tips") if self.tips else ("n", "total")

    def panes(self, records: Sequence[Record], until_ms: int) -> Panes:
        """Return the expected panes of the windows that end at ``until_ms`` or before."""
        size_ms = self.minutes * 60_000
        found: dict[tuple[str, int], list[Record]] = {}
        for record in records:
            if record["amount"] < self.least:
                continue
            start_ms = record["at"] // size_ms * size_ms
            if record[self.key] != MARK and start_ms + size_ms <= until_ms:
                found.setdefault((record[self.key], start_ms), []).append(record)
        return {at: self._values(rows) for at, rows in found.items()}

    def _values(self, rows: Sequence[Record]) -> tuple[int | None, ...]:
        values: list[int | None] = [len(rows), sum(row["amount"] for row in rows)]
        if self.tips:
            tips = [row["tip"] for row in rows if "tip" in row]
            values.append(sum(tips) if tips else None)
        return tuple(values)


@dataclass(frozen=True)
class Program:
    """What is deployed: outputs, and whether the schema has tips."""

    outputs: tuple[Output, ...] = (Output("sales", "user", 1),)
    has_tips: bool = False

    def text(self) -> str:
        """Return the module of the pipeline."""
        schema = {"user": str, "city": str, "at": int, "amount": int}
        if self.has_tips:
            schema["tip"] = int
        columns = ", ".join(f'"{name}": {kind.__name__}' for name, kind in schema.items())
        lines = [
            "import tidemark as td",
            f'pipeline = td.Pipeline("{NAME}", partitions=2)',
            f'rows = pipeline.source("{RAW}", schema={{{columns}}}, event_time="at",',
            '    watermark=td.bounded("20s"), when_silent="wait", idle_after="1h")',
            *(
                f'rows_{least} = rows.filter(td.col("amount") >= {least})'
                for least in sorted({output.least for output in self.outputs})
            ),
        ]
        for output in self.outputs:
            tips = ', tips=td.sum("tip")' * output.tips
            lines.append(
                f'rows_{output.least}.key_by("{output.key}").window(td.tumbling("{output.minutes}m"))'
                f'.aggregate(n=td.count(), total=td.sum("amount"){tips}).to("{output.name}")'
            )
        return "\n".join(lines) + "\n"


def _window(program: Program) -> Program:
    first, *others = program.outputs
    return replace(program, outputs=(replace(first, minutes=6 - first.minutes), *others))


def _key(program: Program) -> Program:
    first, *others = program.outputs
    key = "city" if first.key == "user" else "user"
    return replace(program, outputs=(replace(first, key=key), *others))


def _same_key(program: Program) -> Program:
    return _toggled(program, "by-same", program.outputs[0].key)


def _new_key(program: Program) -> Program:
    return _toggled(program, "by-city", "city")


def _new_filter(program: Program) -> Program:
    return _toggled(program, "large", program.outputs[0].key, least=15)


def _toggled(program: Program, name: str, key: str, least: int = 0) -> Program:
    kept = tuple(output for output in program.outputs if output.name != name)
    if len(kept) == len(program.outputs):
        kept = (*kept, Output(name, key, 5, least=least))
    return replace(program, outputs=kept) if kept else program


def _first_gone(program: Program) -> Program:
    """Remove the first output; an only one gets company first."""
    if len(program.outputs) == 1:
        return _toggled(program, "by-user", "user")
    return replace(program, outputs=program.outputs[1:])


def _order(program: Program) -> Program:
    return replace(program, outputs=program.outputs[::-1])


def _aggregate(program: Program) -> Program:
    first, *others = program.outputs
    changed = replace(first, tips=not first.tips)
    return replace(program, outputs=(changed, *others), has_tips=True)


def _column(program: Program) -> Program:
    return replace(program, has_tips=True)


def _filter(program: Program) -> Program:
    return replace(program, outputs=tuple(map(_filtered, program.outputs)))


def _filter_of_one(program: Program) -> Program:
    *others, last = program.outputs
    return replace(program, outputs=(*others, _filtered(last)))


def _filtered(output: Output) -> Output:
    return replace(output, least=(output.least + 10) % 20)


def _renamed(program: Program) -> Program:
    first, *others = program.outputs
    taken = {output.name for output in program.outputs}
    name = next(each for each in ("sales", "sold", "traded") if each not in taken)
    return replace(program, outputs=(replace(first, name=name), *others))


CHANGES = {
    "window": _window,
    "key": _key,
    "output, same key": _same_key,
    "output, new key": _new_key,
    "aggregate": _aggregate,
    "column": _column,
    "filter": _filter,
    "filter of an output": _filter_of_one,
    "output, new filter": _new_filter,
    "first output gone": _first_gone,
    "order": _order,
    "name of an output": _renamed,
    "nothing": lambda program: program,
}


def draw_records(draw: random.Random, count: int, begin_ms: int, end_ms: int) -> list[Record]:
    """Return records of a span of event time, out of order by less than the watermark's delay.

    Some have a tip, whether or not the present program has the column.
    """
    times = sorted(
        range(count), key=lambda n: n + draw.uniform(0, 15_000 * count / (end_ms - begin_ms))
    )
    records: list[Record] = []
    for n in times:
        record: Record = {
            "user": f"u{draw.randrange(5)}",
            "city": draw.choice(("Rom", "Köln", "Łódź")),
            "at": begin_ms + n * (end_ms - begin_ms) // count,
            "amount": draw.randrange(25),
        }
        if draw.random() < 0.5:
            record["tip"] = draw.randrange(5)
        records.append(record)
    return records
