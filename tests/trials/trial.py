"""A public bug trial through the in-process runner: its steps as records, its rules as checks.

Columns are declared with types here, and a trial may use one field with several.  Then the topic
is read once per type of the key, as a user would who needs them all: a record fits one reading and
is rejected only where none takes it.
"""

import json
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tidemark import Pipeline, bounded, count, on_final, session, sum, tumbling  # noqa: A004
from tidemark.local.run import Cuts, LocalRun

RECORDS = ("line", "produce", "wait_s", "replay", "setup", "query", "check")
"""Steps that the runner without Kafka can take: records, and what is asked of it afterwards."""


class SmallCuts(Cuts):
    """Segments of one to three records: most trials have a few records."""

    def next(self):
        assert self._draw is not None
        return self._draw.randint(1, 3)


@dataclass
class Seen:
    """What came out of a trial."""

    panes: list[dict[str, Any]] = field(default_factory=list)
    open_panes: list[dict[str, Any]] = field(default_factory=list)
    late: list[dict[str, Any]] = field(default_factory=list)
    rejected: list[Any] = field(default_factory=list)
    blank: int = 0


def steps_of(trial):
    return {"line" if isinstance(step, str) else step["do"] for step in trial["input"]}


def records_of(trial):
    """Return the record values in order; a tombstone is None."""
    values: list[bytes | None] = []
    for step in trial["input"]:
        if isinstance(step, str):
            values.append(step.encode())
        elif step["do"] == "produce":
            value = step["value"]
            values.append(None if value is None else value.encode())
    return values


def key_types(values):
    """Return the types of the key that the records use."""
    kinds = set()
    for value in values:
        try:
            record = json.loads(value or b"null")
        except ValueError:
            continue
        if isinstance(record, dict) and isinstance(record.get("k"), str | int):
            kinds.add(type(record["k"]))
    # A flush of time alone is no reason for a reading of its own.
    names = {json.loads(v)["k"] for v in values if v and v.startswith(b'{"k":"')}
    if len(kinds) > 1 and all(name.startswith("_") for name in names):
        kinds.discard(str)
    return sorted(kinds, key=lambda kind: kind.__name__) or [str]


def pipeline_of(spec, key):
    pipeline = Pipeline("trial", partitions=1)
    add_trial(pipeline, "in", spec, key, "results")
    return pipeline


def add_trial(pipeline, topic, spec, key, results, **options):
    """Let a pipeline read a trial's topic; ``options`` of the source are beyond the trial's own."""
    iso = spec.get("ts_format") == "iso8601"
    options |= {name: spec[name] for name in ("min_time",) if name in spec}
    ahead = spec.get("max_future_ms", spec.get("max_ahead_of_record_time_ms"))
    moves = pipeline.source(
        topic,
        schema={"k": key, "ts": str if iso else int, "v": int},
        event_time="ts",
        unit="iso8601" if iso else spec.get("ts_unit", "ms"),
        zone=spec.get("naive_zone"),
        watermark=bounded(f"{spec['ooo_ms']}ms"),
        max_future=None if ahead is None else f"{ahead}ms",
        **options,
    )
    size, gap = (f"{spec.get(name)}ms" for name in ("size_ms", "gap_ms"))
    window = tumbling(size) if spec["window"] == "tumbling" else session(gap)
    # The reports are of systems that decide the lateness of a session's row after merging.
    keyed = moves.key_by("k").window(
        window,
        allowed_lateness=f"{spec['lateness_ms']}ms",
        trigger=on_final(),
        lateness="after_merging" if spec["window"] == "session" else None,
    )
    keyed.aggregate(count=count(), sum=sum("v")).to(results)


def run(trial, cuts):
    """Run a trial's records; collect what every reading gave."""
    values = records_of(trial)
    readings = [_read(trial["spec"], key, values, cuts) for key in key_types(values)]
    seen = Seen(blank=readings[0].blank)
    dead = Counter(letter.offset for reading in readings for letter in reading.rejected)
    for reading in readings:
        seen.panes += reading.panes
        seen.open_panes += reading.open_panes
        seen.late += reading.late
    everywhere = {offset for offset, times in dead.items() if times == len(readings)}
    letters = {letter.offset: letter for reading in readings for letter in reading.rejected}
    seen.rejected = [letters[offset] for offset in sorted(everywhere)]
    return seen


def _read(spec, key, values, cuts):
    local = LocalRun(pipeline_of(spec, key).plan(), cuts)
    for _ in local.run({"in": values}):
        pass
    (published,) = local.published.values()
    panes = [_pane(row) for row in published.every("panes").iter_rows(named=True)]
    panes = [pane for pane in panes if not str(pane["key"]).startswith("_")]
    late = [
        {"key": row["k"], "ts": row["@event_time"], "v": row["v"]}
        for row in published.every("late").iter_rows(named=True)
    ]
    counts = local.counts["in"]
    assert counts.records == counts.passed + counts.filtered + counts.dead + counts.blank
    return Seen(
        [pane for pane in panes if not pane["end_of_input"]],
        [pane for pane in panes if pane["end_of_input"]],
        late,
        local.dead_letters,
        counts.blank,
    )


def _pane(row):
    return {
        "key": row["k"],
        "start": row["start"],
        "end": row["end"],
        "count": row["count"],
        "sum": int(row["sum"]),
        "end_of_input": row["end_of_input"],
    }
