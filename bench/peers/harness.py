"""The shared harness, loaded from its folder, with Tidemark among its peers.

Its modules are plain scripts that import each other by name.  ``measure``, ``check``, ``reference``
and ``table`` are the harness's.  Only its reading of results is redirected to Tidemark's topics.
"""

import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import msgspec
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

FOLDER = Path(__file__).parents[3] / "shared" / "bench"
"""Its usual place, beside the repository."""

OUR_PEERS = {"tidemark-eos-tumbling": "windowing", "tidemark-eos-session": "sessions"}
"""By name in the harness, the service that does the job after ingest."""

_RESULTS = ".results"

Peer = Mapping[str, Any]


class Harness:
    """The harness in ``folder``."""

    def __init__(self, folder: Path) -> None:
        sys.path.insert(0, str(folder))
        if importlib.util.find_spec("orjson") is None:
            # The harness needs only orjson.loads, and msgspec has the same function.
            sys.modules["orjson"] = SimpleNamespace(loads=msgspec.json.decode)  # type: ignore[assignment]
        self.run = cast(Any, importlib.import_module("run"))
        self._gen: Any = importlib.import_module("gen")
        common: Any = importlib.import_module("common")
        self.address: str = common.BOOT
        self.work = Path(common.WORK)
        self._gap_ms: int = common.GAP
        self._read, self._ends = self.run.read, self.run.ends
        self.run.read, self.run.ends = self._our_read, self._our_ends

    def use(self, address: str) -> None:
        """Let all peers work on the broker at ``address``."""
        self.address = self.run.BOOT = self._gen.BOOT = address

    def peers(self) -> dict[str, Peer]:
        """Return the peers whose programs are there, ours first."""
        ours = {name: self._ours(service) for name, service in OUR_PEERS.items()}
        if not (self.work / "build").exists():
            return ours
        (self.work / "lib" / "spark").mkdir(
            parents=True, exist_ok=True
        )  # the harness lists this folder
        return {**ours, **self.run.peers()}

    def _ours(self, service: str) -> Peer:
        job = "tumbling" if service == "windowing" else "session"
        return {
            "job": job,
            "cmd": [sys.executable, str(Path(__file__).with_name("peer.py")), service],
            "env": {"BENCH_JOB": job},
        }

    def fill(self, n: int, users: int, seed: int) -> str:
        """Return the input topic; fill it if it does not exist."""
        topic = f"bench-in-{n}-{users}-{seed}"
        if self._ends(topic) != n:
            self._gen.fill(topic, n, users, seed)
        return topic

    def measure(
        self, name: str, peer: Peer, n: int, reference: Any, topic: str, timeout_s: int
    ) -> dict[str, Any]:
        """Run a peer over the input, check its results and delete its topics."""
        try:
            row: dict[str, Any] = self.run.measure(name, peer, n, reference, topic, timeout_s)
        finally:
            self._delete_topics(name)
        return row

    def _delete_topics(self, name: str) -> None:
        """Delete the topics left by runs of a peer; the harness does not wait for its deletions."""
        admin = AdminClient({"bootstrap.servers": self.address})
        begin = (f"{name}-", f"out-{name}-")
        left = [t for t in admin.list_topics(timeout=10).topics if t.startswith(begin)]
        for deleted in admin.delete_topics(left).values() if left else ():
            with suppress(KafkaException):  # gone by now
                deleted.result()

    def table(self, rows: Sequence[Mapping[str, Any]]) -> str:
        """Return rows as a Markdown table."""
        table: str = self.run.table(rows)
        return table

    def _our_ends(self, topic: str) -> int:
        ends: int = self._ends(_results_topic(topic))
        return ends

    def _our_read(self, topic: str) -> tuple[list[bytes], float | None, float | None]:
        """Return Tidemark's results in the form of the harness's jobs.

        Their sessions end with the last event, ours a gap later.
        """
        ours = _results_topic(topic)
        values, first_s, last_s = self._read(ours)
        if ours != topic and "-session-" in topic:
            values = [self._with_last_event(value) for value in values]
        return values, first_s, last_s

    def _with_last_event(self, value: bytes) -> bytes:
        pane = msgspec.json.decode(value)
        return msgspec.json.encode({**pane, "end": pane["end"] - self._gap_ms})


def _results_topic(topic: str) -> str:
    """Return the topic of results that the harness expects in ``out-<run>``."""
    run = topic.removeprefix("out-")
    return f"{run}{_RESULTS}" if run.startswith("tidemark-") else topic
