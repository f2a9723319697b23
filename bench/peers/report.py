"""Summarizes a run: medians, ratios of Tidemark to Flink, and a section of a Markdown file."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"

Row = Mapping[str, Any]


def medians(rows: Sequence[Row]) -> list[Row]:
    """Return the run with the median speed of each peer, in the order of their first runs.

    Runs with wrong results count only if a peer has no right ones.
    """
    runs: dict[str, list[Row]] = {}
    for row in rows:
        runs.setdefault(row["peer"], []).append(row)
    right = {peer: [row for row in found if row.get("correct")] for peer, found in runs.items()}
    runs = {peer: right[peer] or found for peer, found in runs.items()}
    return [
        sorted(of_peer, key=lambda row: float(row.get("rate_out") or 0))[(len(of_peer) - 1) // 2]
        for of_peer in runs.values()
    ]


def ratios(rows: Iterable[Row]) -> list[str]:
    """Return a line for each job that both Tidemark and Flink did."""
    by_name = {row["peer"]: row for row in rows}
    lines = []
    for job in ("tumbling", "session"):
        ours, theirs = (by_name.get(f"{peer}-eos-{job}") for peer in ("tidemark", "flink"))
        if ours and theirs and ours.get("rate_out") and theirs.get("rate_out"):
            lines.append(
                f"{job}: Tidemark makes {ours['rate_out'] / theirs['rate_out']:.2f} times Flink's "
                f"records/s to the last output, with {ours['cpu_s'] / theirs['cpu_s']:.2f} times "
                f"its CPU seconds"
            )
    return lines


def replace_section(file: Path, text: str) -> None:
    """Replace the text between the two marks of a Markdown file."""
    before, rest = file.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    file.write_text(f"{before}{BEGIN}\n{text.strip()}\n{END}{after}", encoding="utf-8")
