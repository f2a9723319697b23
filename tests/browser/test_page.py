"""The page of docs/monitor.md shows what the topics hold, and what has gone wrong."""

import re
import time
from itertools import count
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, Page, expect

from tests.browser.support import HOSTILE, MOVES, T, Watched
from tests.kafka.support.stack import move
from tests.patience import PATIENCE_S

PATIENCE_MS = 120_000
RED_S = NAMED_S = 5.0
"""docs/monitor.md, "Dataflow": so soon the page shows a killed process, and a stopped producer."""

expect.set_options(timeout=PATIENCE_MS)


def cells(page: Page, table: str, first: str) -> dict[str, str]:
    """The row of a table that begins with this text, by the heads of the columns."""
    heads = page.locator(f"#{table} th").all_text_contents()
    row = page.locator(f"#{table} tbody tr").filter(has=page.get_by_text(first, exact=True))
    return dict(zip(heads, row.locator("td").all_text_contents(), strict=True))


def tile(page: Page, name: str) -> Any:
    return page.locator("#tiles > div").filter(has=page.get_by_text(name, exact=True)).locator("dd")


def records(page: Page, topic: str, key: str = "") -> list[dict[str, str]]:
    """The newest records of a topic, as the page shows them after a search."""
    page.locator("#topic").select_option(topic)
    page.locator("#key").fill(key)
    page.get_by_role("button", name="Search").click()
    expect(page.locator("#records")).to_have_attribute("aria-busy", "false")
    expect(page.locator("#records-note")).to_contain_text("searched")
    heads = page.locator("#records th").all_text_contents()
    rows: list[list[str]] = page.locator("#records tbody").evaluate(
        "body => [...body.rows].map(row => [...row.cells].map(cell => cell.textContent))"
    )
    return [dict(zip(heads, each, strict=True)) for each in rows]


def node(page: Page, name: str) -> Any:
    return page.locator("button.node").filter(has=page.get_by_text(name, exact=True))


def test_the_numbers_are_those_of_the_topics(page: Page, watched: Watched):
    stack = watched.stack
    late = [*stack.results("pops.late"), *stack.results("sessions.late")]
    dead = stack.committed("shop.dead-letters")
    assert late
    expect(tile(page, "late rows")).to_have_text(str(len(late)))
    expect(tile(page, "dead letters")).to_have_text(str(len(dead)))
    expect(tile(page, "lag")).to_have_text("0")
    assert cells(page, "processes", "ingest/0")["rows in"] == str(len(MOVES))
    panes = stack.committed("shop.pops")
    assert cells(page, "processes", "windowing/0")["rows out"] == str(len(panes))
    for name in ("shop-moves", "ingest", "pops", "sessions", "sink", "dead letters"):
        expect(node(page, name).first).to_be_visible()

    shown = records(page, "shop.pops")
    assert {each["value"] for each in shown} == {(value or b"").decode() for _, value in panes}
    found = records(page, "shop.pops", "bob")
    assert {each["value"] for each in found} == {
        (value or b"").decode() for key, value in panes if b"bob" in (key or b"")
    }
    assert all("late by" in each["reason"] for each in records(page, "shop.pops.late"))


def test_open_windows_late_rows_and_a_record_are_explained(page: Page, watched: Watched):
    windows = cells(page, "windows", "pops")
    assert int(windows["open"]) > 0
    assert windows["oldest begins (UTC)"].startswith("2026-03-02 08:00:")
    late = len(watched.stack.results("pops.late"))
    expect(page.locator("#late-notes")).to_contain_text(f"pops: {late} late rows")

    page.locator("#search-operator").select_option("pops")
    page.locator("#search-key").fill("ann")
    page.locator("#search-at").fill("2026-03-02T08:00:02")
    page.get_by_role("button", name="Find", exact=True).click()
    found = page.locator("#found li")
    expect(found.first).to_contain_text("offset ")
    assert any("refuses it as late by " in each for each in found.all_text_contents())
    expect(page.locator("#search-note")).to_have_text("All was read.")


def test_values_are_text_and_never_markup(page: Page):
    letters = records(page, "shop.dead-letters")
    assert {each["value"] for each in letters} == {HOSTILE.decode(), "not json"}
    assert all(each["reason"].startswith("parse: ") for each in letters)
    assert page.locator("main img").count() == 0


def test_it_works_with_the_keyboard_and_remembers_the_past(page: Page):
    pops = node(page, "pops").first
    pops.focus()
    page.keyboard.press("Enter")
    expect(page.locator("#details h3")).to_contain_text("pops")
    expect(page.locator("#details")).to_contain_text("shop-moves/")
    expect(pops).to_be_focused()  # the figures come anew each second, the focus stays
    page.keyboard.press("Enter")
    expect(page.locator("#details")).to_be_hidden()

    plot = page.locator(".chart svg").nth(1)
    plot.focus()
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".chart figcaption").nth(1)).to_contain_text(" UTC")
    page.get_by_role("button", name="7 days").click()
    expect(page.get_by_role("button", name="7 days")).to_have_attribute("aria-pressed", "true")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_axe_finds_no_serious_fault_and_nothing_is_cut_off(page: Page, scheme: Any, width: int):
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": 844})
    records(page, "shop.dead-letters")
    node(page, "ingest").first.click()
    found = Axe().run(page).response["violations"]
    serious = [each for each in found if each["impact"] in ("serious", "critical")]
    assert [(each["id"], each["nodes"][0]["html"]) for each in serious] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_stopped_producer_is_named_within_seconds(page: Page, watched: Watched):
    source, seconds = node(page, "shop-moves").first, count(60)

    def produce_until(waits: bool, partitions: tuple[int, ...]) -> float:
        """Write to partitions until the page shows whether it waits; return how long it took."""
        begun_s = time.monotonic()
        while ("waits" in (source.get_attribute("class") or "").split()) != waits:
            assert time.monotonic() - begun_s < PATIENCE_S
            record = move("ann", T + 1_000 * next(seconds))
            watched.stack.produce((number, None, record) for number in partitions)
            page.wait_for_timeout(200)
        return time.monotonic() - begun_s

    produce_until(False, (0, 1))
    assert produce_until(True, (1,)) < NAMED_S
    expect(source).to_contain_text("shop-moves/0: no record came for ")
    expect(node(page, "pops").first).to_contain_text("waits for shop-moves/0")
    expect(page.locator("#clocks")).to_contain_text("shop-moves/0 holds it for ")


def test_a_killed_service_is_red_within_seconds_and_its_successor_leaves_no_ghost(
    page: Page, watched: Watched
):
    expect(page.locator("#health")).not_to_have_class("pill bad")
    watched.stack.kill("windowing")
    killed_s = time.monotonic()
    pops = node(page, "pops").first
    expect(pops).to_have_class("node operator bad")
    assert time.monotonic() - killed_s < RED_S
    expect(page.locator("#health")).to_have_text("pops does not work")
    expect(page.locator("#alerts")).to_contain_text("windowing/0: silent")
    page.get_by_role("link", name="Show windowing/0 in the graph").first.click()
    expect(page.locator("#details h3")).to_contain_text("does not work")

    watched.stack.start("windowing", slot="1")
    expect(pops).to_have_class(re.compile("node operator (good|waits)"))  # no record comes
    expect(page.locator("#processes")).not_to_contain_text("windowing/0")
    expect(page.locator("#processes")).to_contain_text("windowing/1")


def test_all_that_is_stopped_and_started_under_other_names_leaves_no_ghost(
    chromium: Browser, watched: Watched
):
    """As ``docker-compose down`` and ``up`` do: the slot of a new container is another one."""
    stack, others = watched.stack, ("monitor", "sink")
    page = chromium.new_page()  # its console has an error for each try to reach the monitor
    page.goto(watched.url)
    expect(page.locator("#processes")).to_contain_text("ingest/0")
    stack.stop()
    stack.stop(*others)
    watched.broker.stop()
    expect(page.locator("#health")).to_contain_text("no word from the monitor")
    watched.broker.start()
    stack.start("monitor", slot="up", TIDEMARK_HTTP_PORT=str(watched.port))
    stack.start(slot="up")
    stack.start("sink", slot="up")
    services = sorted({*stack.plan.services(), "sink"})
    expect(page.locator("#processes tbody tr td:first-child")).to_have_text(
        [f"{service}/up" for service in services]
    )
    expect(page.locator("#alerts")).not_to_contain_text("silent")
    page.close()
