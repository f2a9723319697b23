"""The operators of a process that have stopped, as lines for the log and for health.

See docs/operations.md, "Operators that stop".
"""

from collections.abc import Iterable

from tidemark.runtime.keyed.log_partition import LogPartition


def trouble_lines(logs: Iterable[LogPartition]) -> list[str]:
    """Return a line for each operator that has stopped: why, and the remedy."""
    found: dict[str, list[str]] = {}
    for log in logs:
        for each in log.troubles:
            found.setdefault(each.plan.name, []).append(str(each.trouble))
    return [
        f"operator {name} has stopped on {len(texts)} log partitions: {texts[0]}"
        if len(texts) > 1
        else f"operator {name} has stopped: {texts[0]}"
        for name, texts in found.items()
    ]
