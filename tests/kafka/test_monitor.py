"""The monitor beside a running pipeline: JSON, page, alerts, and its state after kill -9."""

import json
from itertools import count
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.kafka.support.stack import Stack, move, wait_until
from tidemark.embedded.broker import free_port

T = 1_772_438_400_000


@pytest.fixture
def port() -> int:
    return free_port()


def ask(port: int, path: str) -> tuple[int, str]:
    try:
        with urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def told(port: int) -> dict[str, Any]:
    code, body = ask(port, "/api/status")
    return json.loads(body) if code == 200 else {"processes": [], "alerts": [], "clocks": []}


def process(port: int, name: str) -> dict[str, Any]:
    return next((each for each in told(port)["processes"] if each["process"] == name), {})


def await_rows_in(port: int, name: str, count: int) -> None:
    wait_until(lambda: process(port, name).get("rows_in") == count, "the rows")


def kinds(port: int) -> set[tuple[str, str]]:
    """Kinds of alerts, each with its subject; a silent process has none, and so counts itself."""
    alerts = told(port)["alerts"]
    return {(each["kind"], each["subject"]) for each in alerts if each["kind"] != "silent"} | {
        (each["kind"], each["process"]) for each in alerts if each["kind"] == "silent"
    }


@pytest.mark.long
def test_it_shows_what_runs_names_what_holds_a_window_open_and_survives_kill_9(broker, port):
    name = "watched"
    with Stack(broker, name, raw_partitions=2) as stack:
        # Any service may start first: here before there is anything to watch.
        stuck = {"TIDEMARK_ALERT_CLOCK_STUCK_MS": "2000"}
        stack.start("monitor", TIDEMARK_HTTP_PORT=str(port), **stuck)
        stack.start()
        moves = [(0, None, move("a", T + 1_000 * second)) for second in range(30)]
        stack.produce([(0, None, b"not json"), (1, None, move("a", T)), *moves])

        for service, rows in (("ingest/0", 32), ("windowing/0", 31), ("sessions/0", 31)):
            await_rows_in(port, service, rows)
        wait_until(lambda: process(port, "ingest/0").get("lag") == 0, "no lag")
        holder = f"{stack.raw}/1"
        raised = {("clock stuck", holder), ("dead letters", "")}
        wait_until(lambda: raised <= kinds(port), "alerts")
        (stands, *_) = [a["text"] for a in told(port)["alerts"] if a["kind"] == "clock stuck"]
        assert stands.startswith(f"{holder} holds ")
        assert "no record came for " in stands

        code, body = ask(port, f"/api/why?operator=pops&end_ms={T + 10_000}")
        clocks = json.loads(body)
        assert code == 200
        assert {c["held_by"] for c in clocks} == {holder}
        assert all(c["open"] for c in clocks)
        assert all(c["why"].startswith(f"{holder} holds it for ") for c in clocks)
        assert all("no record came for " in c["why"] for c in clocks)
        assert {ask(port, f"/api/why?end_ms={end}")[0] for end in ("soon", "--5", "%C2%B2")} == {
            400
        }

        code, page = ask(port, "/")
        assert code == 200
        assert "<script>" not in page
        assert ask(port, "/static/page.js")[0] == 200
        assert ask(port, "/static/app.py")[0] == 404
        assert newest(port, f"{name}.pops")["complete"]
        assert newest(port, f"{name}.pops", "nobody")["records"] == []
        (letter,) = newest(port, f"{name}.dead-letters")["records"]
        assert (letter["value"], letter["place"]) == ("not json", f"{stack.raw}/0/0")
        assert letter["reason"].startswith("parse: ")
        assert ask(port, f"/api/records?topic={stack.raw}")[0] == 400
        wait_until(lambda: len(sampled(port)) > 0, "a past")
        past = sampled(port)

        before = told(port)
        stack.kill("ingest", "windowing", "sessions")
        stack.process("monitor").kill()
        stack.process("monitor").wait()
        stack.start("monitor", TIDEMARK_HTTP_PORT=str(port), **stuck)
        wait_until(lambda: ask(port, "/health/ready")[0] == 200, "its tables")
        # It may have been killed before its tables knew what its page showed; it reads that again.
        wait_until(lambda: _counts(told(port)) == _counts(before), "its state")
        wait_until(lambda: raised <= kinds(port), "its alerts")
        assert past
        assert past.items() <= sampled(port).items()
        wait_until(lambda: ("silent", "windowing/0") in kinds(port), "silence")

        stack.start("windowing", "ingest", "sessions")
        later = count(T + 60_000, 1_000)

        def moves_on() -> bool:
            """Time that stands again would soon be an alert again."""
            at = next(later)
            stack.produce((partition, None, move("a", at)) for partition in (0, 1))
            return ("clock stuck", holder) not in kinds(port)

        wait_until(moves_on, "an end of the alert")
        wait_until(lambda: ("silent", "windowing/0") not in kinds(port), "an end of silence")

        # A process that others replace is gone, however it ended.
        stack.kill("windowing")
        stack.start("windowing", slot="1")
        wait_until(
            lambda: _processes(port) == {"ingest/0", "sessions/0", "windowing/1"}, "its successor"
        )
        stack.start("windowing", slot="2")
        wait_until(lambda: "windowing/2" in _processes(port), "one more")
        stack.stop("windowing", slot="1")
        wait_until(lambda: _processes(port) == {"ingest/0", "sessions/0", "windowing/2"}, "its end")
        process_of_monitor = stack.process("monitor")
        process_of_monitor.terminate()
        assert process_of_monitor.wait() == 0


def newest(port: int, topic: str, key: str = "") -> dict[str, Any]:
    code, body = ask(port, f"/api/records?topic={topic}&key={key}")
    assert code == 200, body
    answer: dict[str, Any] = json.loads(body)
    return answer


def sampled(port: int) -> dict[int, float]:
    """The lag of ingest by time, as far as it is known, without the step that is under way."""
    past = json.loads(ask(port, "/api/history?ring=15m")[1])
    values = past["series"].get("lag:ingest", [])
    times = (past["begin_ms"] + past["step_ms"] * step for step in range(len(values)))
    known = [(at, value) for at, value in zip(times, values, strict=True) if value is not None]
    return dict(known[:-1])


def _processes(port: int) -> set[str]:
    return {each["process"] for each in told(port)["processes"]}


def _counts(status: dict[str, Any]) -> dict[str, tuple[int, ...]]:
    names = ("rows_in", "rows_out", "late", "dead_letters", "started_at_ms")
    return {p["process"]: tuple(p[n] for n in names) for p in status["processes"]}
