"""The pipelines of docs/how-to-join.md publish what the page shows."""

import re
from pathlib import Path
from typing import Any

import pytest

from tidemark.testing import InProcess

PAGE = (Path(__file__).parents[2] / "docs" / "how-to-join.md").read_text()
FIRST, HELD, BY_DAY, ONE_ROW, *OTHERS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
SESSIONS = re.findall(r"```\n(\$ cat .*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(
    ("name", "module", "session"),
    list(zip(("pairs", "table", "site", "plant"), (FIRST, *OTHERS), SESSIONS, strict=True)),
)
def test_the_command_prints_what_the_page_shows(shown_and_printed, name, module, session):
    shown, printed = shown_and_printed(name, module, session)
    assert shown == printed


def test_the_bound_of_an_order_is_its_own():
    names: dict[str, Any] = {}
    exec(compile(FIRST + HELD, "docs/how-to-join.md", "exec"), names)
    with InProcess(names["shop"]) as run:
        orders = (("a", 1_000), ("b", 10), ("c", None), ("d", -1), ("e", 86_400_001))
        run.send("orders", *({"id": name, "at": 0, "hold": hold} for name, hold in orders))
        run.send("payments", *({"order": name, "at": 11, "paid": 1} for name, _ in orders))
        assert [row["order"] for row in run.published("held")] == ["a", "e"]
        assert len(run.dead_letters()) == 2


def test_orders_and_payments_of_a_day_join():
    names: dict[str, Any] = {}
    exec(compile(FIRST + BY_DAY, "docs/how-to-join.md", "exec"), names)
    hour = 3_600_000
    with InProcess(names["shop"]) as run:
        run.send("orders", *({"id": name, "at": 22 * hour} for name in "ab"))
        run.send("payments", {"order": "a", "at": 1}, {"order": "b", "at": 23 * hour})
        run.idle("orders", "3d")
        run.idle("payments", "3d")
        found = {(row["order"], row["at"], row["at_right"]) for row in run.published("by-day")}
    # The day in Madrid ends at 23:00 UTC in winter.
    paid, unpaid = ("a", 22 * hour, 1), ("b", 22 * hour, None)
    assert found == {paid, unpaid, ("b", None, 23 * hour)}


def test_an_order_has_one_row_with_all_its_payments():
    names: dict[str, Any] = {}
    exec(compile(FIRST + ONE_ROW, "docs/how-to-join.md", "exec"), names)
    with InProcess(names["shop"]) as run:
        run.send("orders", {"id": "a", "at": 0}, {"id": "b", "at": 0})
        run.send("payments", *({"order": "a", "at": n, "paid": 7 - n} for n in (1, 2)))
        run.idle("orders", "3h")
        run.idle("payments", "3h")
        sums = {(r["order"], r["payments"], r["paid"]) for r in run.published("paid-in-all")}
        least = {(r["order"], r["at_right"], r["paid"]) for r in run.published("least-payment")}
    assert sums == {("a", 2, 11), ("b", 0, None)}
    assert least == {("a", 2, 5), ("b", None, None)}
