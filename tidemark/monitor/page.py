"""Renders the status page: one HTML document without scripts or other files."""

from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any

_STYLE = """
:root { color-scheme: light dark; --line: #8884; --bad: #c62828; --good: #2e7d32; --dim: #8889; }
@media (prefers-color-scheme: dark) { :root { --bad: #ff8a80; --good: #81c784; } }
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 76rem; padding: 0 1rem }
h1 { font-size: 1.4rem; margin: 0 } h2 { font-size: 1.05rem; margin: 1.8rem 0 .4rem }
p { margin: .3rem 0 } .dim { color: var(--dim) } .bad { color: var(--bad) }
.good { color: var(--good) } div { overflow-x: auto }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .3rem .9rem .3rem 0; border-bottom: 1px solid var(--line) }
th { font-weight: 600; white-space: nowrap } td { vertical-align: top }
.n { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap }
.t { white-space: nowrap; font-variant-numeric: tabular-nums }
"""

_YEAR_10000_MS = 253_402_300_800_000


def page(status: dict[str, Any]) -> str:
    """Return the page of a status, as HTML."""
    name, now_ms = escape(status["pipeline"]), status["at_ms"]
    return "".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            f'<meta http-equiv="refresh" content="5"><title>{name} - Tidemark</title>',
            f"<style>{_STYLE}</style></head><body><h1>{name}</h1>",
            f'<p class="dim">{_time(now_ms)} UTC, every five seconds; '
            '<a href="/api/status">as JSON</a></p>',
            _alerts(status["alerts"], now_ms),
            _processes(status["processes"]),
            _clocks(status["clocks"]),
            _sources(status["sources"], now_ms),
            "</body></html>",
        ]
    )


def _alerts(alerts: Sequence[dict[str, Any]], now_ms: int) -> str:
    if not alerts:
        return '<h2>Alerts</h2><p class="good">None.</p>'
    rows = [
        [
            f'<td class="bad">{escape(each["kind"])}</td>',
            _text(each["process"]),
            _text(each["text"]),
            _number(_duration(now_ms - each["since_ms"])),
        ]
        for each in alerts
    ]
    return _table("Alerts", ("what", "process", "", ">for"), rows)


def _processes(processes: Sequence[dict[str, Any]]) -> str:
    heads = (
        *("process", "state", ">lag", ">in", ">out", ">late", ">dead letters"),
        *(">commits", ">mean", ">longest just now"),
    )
    rows = [
        [
            _text(each["process"]),
            _state(each),
            _number(_count(each["lag"])),
            *(_number(_count(each[n])) for n in ("rows_in", "rows_out", "late", "dead_letters")),
            _number(_count(each["commits"])),
            _number(_millis(each["commit_mean_ms"])),
            _number(_millis(each["commit_longest_ms"])),
        ]
        for each in processes
    ]
    return _table("Processes", heads, rows)


def _state(process: dict[str, Any]) -> str:
    reasons = escape("; ".join(process["reasons"]))
    if process["ready"]:
        return f'<td><span class="good">ready</span> {reasons}</td>'
    return f'<td class="bad">{reasons or "not ready"}</td>'


def _clocks(clocks: Sequence[dict[str, Any]]) -> str:
    rows = [
        [
            _text(each["operator"]),
            _number(str(each["partition"])),
            f'<td class="t">{_time(each["clock_ms"])}</td>',
            _number(_count(each["open_windows"])),
            _number(_bytes(each["state_bytes"])),
            _text(each["why"]),
        ]
        for each in clocks
    ]
    heads = (
        "operator",
        ">partition",
        "clock",
        ">open windows",
        ">state",
        "what the clock waits for",
    )
    return _table("Clocks", heads, rows)


def _sources(sources: Sequence[dict[str, Any]], now_ms: int) -> str:
    rows = [
        [
            _text(each["source"]),
            f'<td class="t">{_time(each["watermark_ms"])}</td>',
            _number(_count(each["lag"])),
            _number(_duration(now_ms - (each["silent_since_ms"] or now_ms))),
            _text("idle" if each["idle"] else "table is loaded" if each["loading"] else ""),
        ]
        for each in sources
    ]
    heads = ("raw partition", "watermark", ">lag", ">last record", "")
    return _table("Sources", heads, rows)


def _table(title: str, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    if not rows:
        return f'<h2>{title}</h2><p class="dim">No records yet.</p>'
    top = "".join(
        f'<th class="n">{head[1:]}</th>' if head.startswith(">") else f"<th>{head}</th>"
        for head in heads
    )
    body = "".join(f"<tr>{''.join(cells)}</tr>" for cells in rows)
    return f"<h2>{title}</h2><div><table><tr>{top}</tr>{body}</table></div>"


def _text(value: str) -> str:
    return f"<td>{escape(value)}</td>"


def _number(shown: str) -> str:
    return f'<td class="n">{shown}</td>'


def _count(value: int | None) -> str:
    return "?" if value is None else f"{value:,}"


def _millis(value: float | None) -> str:
    return "" if value is None else f"{value:.0f} ms"


def _bytes(value: int) -> str:
    return f"{value / 2**20:.1f} MiB" if value >= 2**20 else f"{value / 2**10:.1f} KiB"


def _duration(ms: int) -> str:
    seconds = max(0, ms) // 1000
    if seconds < 120:
        return f"{seconds} s"
    return f"{seconds // 60} min" if seconds < 7_200 else f"{seconds // 3600} h"


def _time(at_ms: int | None) -> str:
    if at_ms is None:
        return "none yet"
    if not 0 <= at_ms < _YEAR_10000_MS:
        return str(at_ms)
    return datetime.fromtimestamp(at_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S")
