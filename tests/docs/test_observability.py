"""The dashboard and the alert rules in observability/ use metrics and labels that exist.

The table of docs/monitor.md has them; another test compares it with /metrics.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "observability"
ROW = re.compile(r"^\| `(tidemark_\w+)` \| (\w+) \|[^|]*\|([^|]*)\|", re.MULTILINE)
OF_SCRAPES = {"service", "instance", "job"}
"""Labels that observability/prometheus.yml and Prometheus itself add."""


def metrics() -> dict[str, tuple[str, set[str]]]:
    """Type and labels of each metric by name."""
    page = (ROOT / "docs" / "monitor.md").read_text()
    return {name: (kind, set(re.findall(r"`(\w+)`", by))) for name, kind, by in ROW.findall(page)}


def panels() -> Iterator[tuple[str, str]]:
    """Yield expression and legend of each line of the dashboard."""
    dashboard = json.loads((FOLDER / "grafana" / "tidemark.json").read_text())
    for panel in dashboard["panels"]:
        for target in panel["targets"]:
            yield target["expr"], target["legendFormat"]


def rules() -> Iterator[tuple[str, str]]:
    """Yield expression and summary of each alert rule."""
    for rule in (FOLDER / "alerts.yml").read_text().split("- alert: ")[1:]:
        expression = re.search(r"expr: (?:>-\n)?(.*?)\n        (?:for|labels):", rule, re.DOTALL)
        summary = re.search(r'summary: "(.*)"', rule)
        assert expression, rule
        assert summary, rule
        assert 'todo: "' in rule
        yield expression.group(1), summary.group(1)


USES = [*panels(), *rules()]


def family(name: str) -> str:
    """The metric of a series: histograms have series for their buckets."""
    return re.sub(r"_(bucket|sum|count)$", "", name)


def test_there_are_panels_and_rules():
    assert (len([*panels()]), len([*rules()])) == (22, 7)


@pytest.mark.parametrize(("expression", "shown"), USES)
def test_each_expression_uses_metrics_and_labels_that_exist(expression, shown):
    known = metrics()
    used = re.findall(r"\btidemark_\w+", expression)
    assert used or 'up{job="tidemark"}' in expression
    labels = set(OF_SCRAPES)
    for name in used:
        kind, its = known[family(name)]
        assert (kind == "histogram") == (name != family(name)), name
        assert (kind == "counter") == name.endswith("_total"), name
        labels |= its | ({"le"} if kind == "histogram" else set())
        is_rated = re.search(rf"(rate|increase)\({name}\[", expression)
        assert bool(is_rated) == (kind in ("counter", "histogram")), name
    grouped = {each for by in re.findall(r"(?:by|on) \(([^)]*)\)", expression)
               for each in by.split(", ")}  # fmt: skip
    assert grouped <= labels
    named = set(re.findall(r"\{\{ ?\$?(?:labels\.)?(\w+) ?\}\}", shown)) - {"value"}
    assert named <= (grouped or labels)


def test_the_files_that_compose_mounts_are_there():
    compose = (ROOT / "docker-compose.yml").read_text()
    mounted = re.findall(r"- \./(observability/\S+?):", compose)
    files = [path for path in FOLDER.rglob("*") if path.is_file()]
    assert sorted(mounted) == sorted(path.relative_to(ROOT).as_posix() for path in files)
