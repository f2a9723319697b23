"""A broker, a pipeline with its monitor, and Chromium, for the whole session."""

import json
import os
import shutil
from collections.abc import Iterator
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.browser.support import MOVES, ROWS, Watched
from tests.kafka.support.stack import Stack, wait_until
from tidemark.embedded.broker import Broker, free_port


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    path = shutil.which("chromium")
    assert path, "no chromium on the PATH: make browser installs it"
    # Chromium refuses to be root with its sandbox; CI is root in a container.
    options = ["--no-sandbox"] if os.geteuid() == 0 else []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=options)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def watched(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    """A pipeline that has read MOVES, and the address of its monitor."""
    port = free_port()
    folder = tmp_path_factory.mktemp("browser")
    with (
        Broker(folder, free_port()) as broker,
        Stack(
            broker.address,
            "shop",
            raw_partitions=2,
            TIDEMARK_STATS_INTERVAL_MS="500",
            # A process that starts anew counts from 0, so its numbers are not the expected ones.
            KAFKA_SESSION_TIMEOUT_MS="20000",
            TIDEMARK_SINK=f"sqlite:{folder}/results.db",
        ) as stack,
    ):
        stack.start("monitor", TIDEMARK_HTTP_PORT=str(port))
        url = f"http://127.0.0.1:{port}"
        stack.start()
        stack.start("sink")
        stack.produce(MOVES)

        def has_read_all() -> bool:
            try:
                with urlopen(f"{url}/api/status", timeout=5) as answer:
                    shown = json.load(answer)["processes"]
            except OSError:
                return False
            rows = {each["process"]: each["rows_in"] for each in shown if each["lag"] == 0}
            read = {"ingest/0": len(MOVES), "windowing/0": ROWS, "sessions/0": ROWS}
            return read.items() <= rows.items() and "sink/0" in rows

        wait_until(has_read_all, "the moves")
        yield Watched(stack, url, broker, port)


@pytest.fixture
def page(chromium: Browser, watched: Watched) -> Iterator[Page]:
    """The page, as it shows its first figures; errors of its console fail the test."""
    shown = chromium.new_page(viewport={"width": 1280, "height": 800})
    errors: list[str] = []
    shown.on("console", lambda said: errors.append(said.text) if said.type == "error" else None)
    shown.on("pageerror", lambda error: errors.append(str(error)))
    shown.goto(watched.url)
    shown.wait_for_selector("#processes tbody tr")
    yield shown
    shown.close()
    assert errors == []
