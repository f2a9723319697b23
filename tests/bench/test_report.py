from pathlib import Path
from typing import Any

from bench.peers.report import BEGIN, END, medians, ratios, replace_section


def row(peer: str, rate: int | None, cpu_s: float = 1.0) -> dict[str, Any]:
    return {"peer": peer, "rate_out": rate, "cpu_s": cpu_s}


def test_the_run_with_the_median_speed_stands_for_a_peer():
    rows = [row("a", 5), row("b", 1), row("a", 9), row("a", None), row("b", 3)]

    assert medians(rows) == [row("a", 5), row("b", 1)]


def test_a_run_with_wrong_results_counts_only_where_there_is_no_other():
    wrong, right = {**row("a", 9), "correct": False}, {**row("a", 5), "correct": True}

    assert medians([wrong, right]) == [right]
    assert medians([wrong]) == [wrong]


def test_tidemark_is_set_against_flink_where_both_did_the_job():
    rows = [
        row("tidemark-eos-tumbling", 300, 2.0),
        row("flink-eos-tumbling", 100, 8.0),
        row("tidemark-eos-session", 300),
    ]

    (line,) = ratios(rows)

    assert line.startswith("tumbling: Tidemark makes 3.00 times")
    assert "0.25 times its CPU" in line


def test_only_the_section_between_the_marks_is_replaced(tmp_path: Path):
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")

    replace_section(page, "new\n")

    assert page.read_text(encoding="utf-8") == f"before\n{BEGIN}\nnew\n{END}\nafter\n"
