"""Operators by processing time: segments recorded at given times, and the panes they cause."""

from dataclasses import replace

from tests.support.logs import Commit, Raw, Read, Record, record
from tests.support.running import Task
from tidemark.core.windows.pane import END, REVISION, START


def by_clock(operator):
    return replace(operator, by_processing_time=True)


def segments(*commits):
    """Record commits of (processing time, event times), one row of key a each."""
    records = tuple(Record(at, (("a", 1),)) for _, times in commits for at in times)
    made = record(
        Raw({"t/0": records}, 0), [Commit((Read("t/0", len(times)),)) for _, times in commits]
    )
    return [replace(s, ingested_at_ms=now) for s, (now, _) in zip(made, commits, strict=True)]


def stepped(operator, *commits):
    task, shown = Task(operator), []
    for segment in segments(*commits):
        panes = task.step(segment).panes
        shown.append([f"[{s},{e}) r{r}" for s, e, r in panes.select(START, END, REVISION).rows()])
    return shown
