"""Run a pipeline for long at a steady rate: python -m tests.soak [--minutes 30] [--rate 20000].

The services run as processes on a broker of their own; one that ends is started again.  It fails
where memory or changelogs still grow in the last third of the time, where a record is not accounted
for, or where a pane or a row of the join came twice.
"""

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, quantiles
from tempfile import TemporaryDirectory

from confluent_kafka import Message

from tests.kafka.support.stack import Stack
from tests.soak import life
from tests.soak.load import Load
from tests.soak.panes import Panes
from tidemark.embedded.broker import Broker
from tidemark.partition import Partition
from tidemark.runtime.client.consumer import EARLIEST, LATEST, offsets
from tidemark.runtime.client.range_reader import read

RAW_PARTITIONS = PARTITIONS = 4
SERVICES = ("ingest", "windowing", "sessions", "joins")
CHANGELOGS = ("scores", "visits", "pairs")
_SAMPLE_S = 10.0
_SETTLED = 12
"""Samples that a third must have to be judged: two minutes, in which all windows come to be."""

_END_S = 300.0
_MARGIN = 1.10
_SLACK = {"MiB": 16.0, "disk MiB": 64.0, "windows": 1_000.0}
"""What the last third may be above the middle one besides: a heap's and a topic file's grain."""


@dataclass
class Sample:
    """Sizes at one moment, by what they are of."""

    at_s: float
    sizes: dict[str, float] = field(default_factory=dict)


@dataclass
class Soak:
    """One run on a stack that is started."""

    stack: Stack
    data: Path
    seconds: float
    load: Load
    panes: Panes
    samples: list[Sample] = field(default_factory=list)
    marks: list[int] = field(default_factory=list)  # panes seen at the ends of the thirds
    restarts: int = 0

    def run(self) -> list[str]:
        """Let it run; return what is wrong."""
        begun_s = time.monotonic()
        self.panes.start()
        self.load.start()
        while (at_s := time.monotonic() - begun_s) < self.seconds:
            if at_s >= self.seconds * (len(self.marks) + 1) / 3:
                self.marks.append(len(self.panes.latencies_ms))
            self._keep_alive()
            self.samples.append(self._sample(at_s))
            self._show()
            time.sleep(_SAMPLE_S)
        self.marks.append(len(self.panes.latencies_ms))
        live = {name: self._live(name) for name in CHANGELOGS}
        for name, (records, size) in live.items():
            print(f"{name}.changelog at the end: {records:,} live records, {size / 2**20:.1f} MiB")
        self.load.end()
        return [*self._accounts(), *self._growth()]

    def _keep_alive(self) -> None:
        """Start again what has ended, as a supervisor does."""
        for name in SERVICES:
            if self.stack.process(name).poll() is not None:
                print(f"{name} ended: {self.stack.log(name).splitlines()[-1]}", flush=True)
                self.stack.start(name)
                self.restarts += 1

    def _sample(self, at_s: float) -> Sample:
        sizes = {f"{name} MiB": _rss_mib(self.stack.process(name).pid) for name in SERVICES}
        for name in CHANGELOGS:
            folders = self.data.glob(f"{self.stack.name}.{name}.changelog-*")
            sizes[f"{name} disk MiB"] = sum(map(_folder_mib, folders))
        sizes["open windows"] = self.panes.open
        return Sample(at_s, sizes)

    def _show(self) -> None:
        sample = self.samples[-1]
        sizes = "  ".join(f"{name} {size:,.0f}" for name, size in sample.sizes.items())
        recent = self.panes.latencies_ms[-5_000:]
        p50 = f"{sorted(recent)[len(recent) // 2]:,.0f}" if recent else "-"
        print(
            f"{sample.at_s:5,.0f} s  {self.load.produced:,} records  {self.panes.count:,} panes"
            f"  p50 {p50} ms  {sizes}",
            flush=True,
        )

    def _live(self, name: str) -> tuple[int, int]:
        """Count the records of a changelog that a restore would read, and their bytes."""
        last = {
            (message.partition(), message.key()): len(message.value() or b"")
            for message in self._messages(f"{name}.changelog")
        }
        sizes = [size for size in last.values() if size]
        return len(sizes), sum(sizes)

    def _messages(self, name: str) -> Iterator[Message]:
        partitions = [Partition(f"{self.stack.name}.{name}", n) for n in range(PARTITIONS)]
        begin = offsets(self.stack.admin, partitions, EARLIEST)
        end = offsets(self.stack.admin, partitions, LATEST)
        return read(self.stack.config, {at: (begin[at], end[at]) for at in partitions})

    def _accounts(self) -> list[str]:
        """Wait until each record is in a pane or late; return what does not add up."""
        ends = RAW_PARTITIONS  # moves of the end itself, whose windows stay open
        wanted, late = self.load.produced - ends, 0
        deadline_s = time.monotonic() + _END_S
        while self.panes.moves + late < wanted and time.monotonic() < deadline_s:
            self._keep_alive()
            late = sum(1 for _ in self._messages("scores.late"))
            time.sleep(1)
        self.panes.end()
        moves = self.panes.moves
        print(f"{self.load.produced:,} records = {moves:,} in panes + {late:,} late + {ends} open")
        print(f"{self.panes.count:,} panes, {self.restarts} restarts")
        for name in SERVICES:
            figures = " ".join(f"{key}={value}" for key, value in self.stack.figures(name).items())
            print(f"{name}: {figures}")
        wrong = [] if self.panes.twice == 0 else [f"{self.panes.twice} panes came twice"]
        wrong += self._pairs(deadline_s)
        if moves + late != wanted:
            wrong.append(f"{moves + late:,} moves of {wanted:,}")
        statuses = self.stack.stop()
        return wrong if set(statuses.values()) == {0} else [*wrong, f"statuses {statuses}"]

    def _pairs(self, deadline_s: float) -> Iterator[str]:
        """Wait until each left row of the join is published or late; say what differs."""
        wanted = self.load.best
        while True:
            self._keep_alive()
            rows = [json.loads(each.value() or b"") for each in self._messages("pairs")]
            late = sum(1 for _ in self._messages("pairs.late-left"))
            left = len({row["place"] for row in rows}) + late
            if left >= wanted or time.monotonic() > deadline_s:
                break
            time.sleep(1)
        print(f"{wanted:,} left rows of the join, {len(rows):,} rows published, {late:,} late")
        if len({row["_id"] for row in rows}) < len(rows):
            yield "rows of the join came twice"
        if left != wanted:
            yield f"{left:,} left rows of {wanted:,}"

    def _growth(self) -> list[str]:
        """Print sizes by thirds of the time; return what still grew in the last."""
        wrong = []
        print(f"\n{'mean of':24}{'first third':>14}{'middle':>14}{'last':>14}{'highest':>14}")
        for name in self.samples[0].sizes:
            series = [sample.sizes[name] for sample in self.samples]
            third = len(series) // 3
            means = [fmean(series[n * third : (n + 1) * third]) for n in range(3)]
            print(f"{name:24}" + "".join(f"{mean:14,.1f}" for mean in [*means, max(series)]))
            slack = next(size for unit, size in reversed(_SLACK.items()) if name.endswith(unit))
            if len(series) >= 3 * _SETTLED and means[2] > means[1] * _MARGIN + slack:
                wrong.append(f"{name} grew from {means[1]:,.0f} to {means[2]:,.0f}")
        self._print_latencies()
        return wrong

    def _print_latencies(self) -> None:
        begins = [0, *self.marks[:-1]]
        for share in (50, 95, 99):
            cuts = [
                quantiles(self.panes.latencies_ms[begin:end], n=100)[share - 1]
                for begin, end in zip(begins, self.marks, strict=True)
            ]
            print(f"{f'latency p{share} ms':24}" + "".join(f"{cut:14,.0f}" for cut in cuts))


def main() -> int:
    """Run the soak; return the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--rate", type=int, default=20_000, help="records per second")
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    with TemporaryDirectory() as folder, Broker(Path(folder)) as broker:
        # A machine that does other work too may not let a process run for some seconds.
        patience = {
            "KAFKA_SESSION_TIMEOUT_MS": "45000",
            "KAFKA_HEARTBEAT_INTERVAL_MS": "3000",
            "TIDEMARK_TRANSACTION_TIMEOUT_MS": "120000",
        }
        with Stack(broker.address, "soak", RAW_PARTITIONS, life, None, **patience) as stack:
            stack.start()
            stack.await_partitions()
            load = Load(broker.address, stack.raw, RAW_PARTITIONS, asked.rate, asked.seed)
            panes = Panes(stack.config, "soak.scores", PARTITIONS)
            soak = Soak(stack, Path(folder) / "data", asked.minutes * 60, load, panes)
            wrong = soak.run()
    for line in wrong:
        print(f"FAULT {line}")
    print(
        f"{load.produced:,} records in {asked.minutes:g} minutes, {panes.count:,} panes of windows"
    )
    print("bounded" if not wrong else f"{len(wrong)} faults")
    return 1 if wrong else 0


def _rss_mib(pid: int) -> float:
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    # One that has just ended has none.
    return next((int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS")), 0.0)


def _folder_mib(folder: Path) -> float:
    """Return the size of a partition's files; some may go while they are looked at."""
    total = 0
    for file in folder.glob("*.log"):
        try:
            total += file.stat().st_size
        except FileNotFoundError:
            continue
    return total / 2**20


if __name__ == "__main__":
    sys.exit(main())
