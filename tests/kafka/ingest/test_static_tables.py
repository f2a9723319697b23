"""Static tables on Kafka: each change is written once, whatever becomes of the owner."""

import json
import time

from tests.kafka.ingest.users import HOUR_MS, answers, click, versions, write
from tests.kafka.pipelines.chains import named
from tests.kafka.support.stack import Stack, wait_until
from tidemark.core.time.event_time import EARLIEST_MS


def test_each_change_is_written_once_and_counts_from_its_load_on(broker, tmp_path):
    path = tmp_path / "users.csv"
    users: dict[object, str] = {number: f"u{number}" for number in range(50)}
    users["x"] = "nobody"
    write(path, users)
    options = {"address": str(path), "reload": "1s"}
    with Stack(broker, "named", module=named, options=options) as stack:
        stack.start()
        click(stack, (1, 1_000), (2, 2_000), (99, 3_000), (0, 4_000))
        known = [(1, "u1"), (2, "u2"), (99, None)]
        wait_until(lambda: answers(stack) == known, "answers of the first load")
        assert {at for at, *_ in versions(stack)} == {EARLIEST_MS}
        assert len(versions(stack)) == 51

        stack.kill("ingest")
        users |= {1: "other", 3: "three"}
        write(path, users)
        stack.start("ingest")
        wait_until(lambda: len(versions(stack)) == 53, "the versions of the second load")

        path.unlink()
        wait_until(lambda: "stays as it is" in stack.log("ingest"), "a load that fails")
        del users[2]
        write(path, users)
        wait_until(lambda: len(versions(stack)) == 54, "the tombstone")
        assert versions(stack)[-1][1:] == ("true", "2", "u2")
        assert stack.figures("ingest")["load_failures"] != "0"

        at_ms = int(time.time() * 1_000) + HOUR_MS
        click(stack, (1, 5_000), (1, at_ms), (2, at_ms + 1), (3, at_ms + 2), (0, at_ms + 3))
        known += [(0, "u0"), (1, "u1"), (1, "other"), (2, None), (3, "three")]
        wait_until(lambda: answers(stack) == known, "answers of all loads")
        letters = [json.loads(value or b"") for _, value in stack.committed("named.dead-letters")]
        assert [each["value"].count("users.csv:52") for each in letters] == [1]
        assert set(stack.stop().values()) == {0}
        assert len(versions(stack)) == 54


def test_a_missing_file_stops_the_start(broker, tmp_path):
    options = {"address": str(tmp_path / "none.csv")}
    with Stack(broker, "unnamed", module=named, options=options) as stack:
        stack.start("ingest")
        assert stack.process("ingest").wait() == 2
        assert "static table unnamed.users.static" in stack.log("ingest")
        assert "there is no such file" in stack.log("ingest")
