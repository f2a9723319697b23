"""Runs of a pipeline in one process, with the results as `tidemark try` writes them."""

import io
import json
from collections.abc import Iterable, Mapping
from typing import Any

from tidemark.local.run import Cuts, LocalRun
from tidemark.local.view import write_results
from tidemark.plan.physical import Plan


def finished(
    plan: Plan,
    inputs: Mapping[str, Iterable[bytes]],
    seed: int | None = None,
    *,
    every_pane: bool = False,
) -> tuple[LocalRun, bytes]:
    """Return a run over the inputs and its results as lines; ``seed`` decides on the cuts."""
    run, out = LocalRun(plan, Cuts(seed)), io.BytesIO()
    for _ in run.run(inputs):
        pass
    write_results(run, out, every_pane=every_pane)
    return run, out.getvalue()


def decoded(lines: bytes) -> list[dict[str, Any]]:
    """Return the results of lines in order."""
    return [json.loads(line) for line in lines.splitlines()]


def by_topic(lines: bytes) -> dict[str, list[dict[str, Any]]]:
    """Return the values of lines in order, by topic."""
    found: dict[str, list[dict[str, Any]]] = {}
    for each in decoded(lines):
        found.setdefault(each["topic"], []).append(each["value"])
    return found
