"""What a run says: the harness's table, and Tidemark against Flink in the same run."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"

Row = Mapping[str, Any]


def medians(rows: Sequence[Row]) -> list[Row]:
    """Return of each peer the run with the median speed, of those with right results if any.

    Peers are in the order of their first runs.
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
    """Return a line per job that Tidemark and Flink both did."""
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
    """Put text between the two marks of a Markdown file."""
    before, rest = file.read_text(encoding="utf-8").split(BEGIN)
    after = rest.split(END)[1]
    file.write_text(f"{before}{BEGIN}\n{text.strip()}\n{END}{after}", encoding="utf-8")
