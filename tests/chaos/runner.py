"""One run: a broker of its own, a pipeline with replicas, records, faults, and the verdict.

Records and faults come by the clock of the run; then everything is let alone until all records are
through, the services are stopped, and the judge looks at what is on the broker.
"""

import random
import shutil
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from confluent_kafka import KafkaException

from tests.chaos import pipelines
from tests.chaos.draining import Drain
from tests.chaos.feeder import Feeder
from tests.chaos.judging.judge import judge
from tests.chaos.lost_ends import lost_ends
from tests.chaos.outages import Outages
from tests.chaos.recorded import record
from tests.chaos.records import draw_records
from tests.chaos.schedule import FEED_S, Fault, Scenario, draw_scenario
from tests.chaos.supervising import Supervisor
from tests.kafka.support.stack import Replica, Stack
from tests.patience import PATIENCE_S
from tidemark.embedded.broker import Broker, free_port
from tidemark.errors import TidemarkError
from tidemark.partition import Partition
from tidemark.runtime.client import topics
from tidemark.runtime.keyed.announcements import topics_of

PARTS = 80
ENDS_S = 60.0
"""After so long the broker has aborted the transactions of all that were killed."""

LOST_END = "the broker has lost its end"
"""What a service says that finds such a transaction."""

START_S, MOST_STRETCH = 5.0, 3.0
"""How long the services take to start on a machine with nothing else to do."""

_TURN_S = 0.05
_ENV = {
    "TIDEMARK_TRANSACTION_TIMEOUT_MS": "10000",
    "KAFKA_TOPIC_METADATA_REFRESH_INTERVAL_MS": "1000",
    "POLARS_MAX_THREADS": "1",
}


@dataclass
class Outcome:
    """What a run came to; ``injected`` counts the faults that hit.

    ``void``: why the run says nothing of the services.
    """

    scenario: Scenario
    void: str = ""
    took_s: float = 0.0
    injected: Counter[str] = field(default_factory=Counter)
    timeline: list[str] = field(default_factory=list)
    restarts: int = 0
    figures: dict[str, int] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)

    @property
    def broker_was_hurt(self) -> bool:
        """Whether the broker may have lost ends of transactions, which no service can help."""
        return any(self.injected[f"broker {kind}"] for kind in ("kill", "freeze", "stop"))


class NotDrainedError(Exception):
    """Records did not come through in time."""


class LostEndError(Exception):
    """A broker that was hurt has forgotten to end a transaction (docs/decisions/0004)."""


def run_seed(seed: int, logs: Path) -> Outcome:
    """Run the scenario of a seed."""
    return run(draw_scenario(seed), logs / f"seed-{seed}")


def run(scenario: Scenario, logs: Path) -> Outcome:
    """Run a scenario; what services and broker logged is left in ``logs`` if anything differs."""
    outcome = Outcome(scenario)
    begun_s = time.monotonic()
    with TemporaryDirectory(prefix="chaos-") as folder, ExitStack() as ends:
        broker, store = Broker(Path(folder) / "broker", free_port()), Path(folder) / "state"
        ends.enter_context(broker)
        stack = ends.enter_context(_stack(scenario, broker.address, store))
        session = _Run(scenario, broker, stack, store, outcome)
        ends.callback(session.supervisor.close)
        try:
            session.run()
        except LostEndError as error:
            outcome.void = f"the broker has lost the end of a transaction on {error}"
        except (NotDrainedError, KafkaException, TidemarkError, AssertionError) as error:
            outcome.differences.append(f"{type(error).__name__}: {error}")
        finally:
            session.outages.thaw()
            outcome.differences += session.supervisor.differences
            outcome.differences += session.supervisor.said()
        if outcome.void:
            outcome.differences = [d for d in outcome.differences if LOST_END not in d]
        elif outcome.differences and outcome.broker_was_hurt:
            lost = lost_ends(broker.folder / "data", f"{stack.name}.")
            if lost:
                outcome.void = f"the broker has lost ends of transactions: {lost}"
                outcome.differences = []
        outcome.took_s = time.monotonic() - begun_s
        if outcome.differences:
            _keep(outcome, stack, broker, logs)
    return outcome


def _stack(scenario: Scenario, address: str, store: Path) -> Stack:
    name = f"chaos{scenario.seed}"
    partitions = {f"{name}-{topic}": count for topic, count in scenario.partitions.items()}
    env = {**_ENV, **scenario.env, "TIDEMARK_STATE_DIR": str(store)}
    return Stack(address, name, partitions, pipelines, scenario.options, **env)


def _keep(outcome: Outcome, stack: Stack, broker: Broker, logs: Path) -> None:
    shutil.rmtree(logs, ignore_errors=True)
    logs.mkdir(parents=True)
    (logs / "differences.txt").write_text("\n".join(outcome.differences))
    (logs / "timeline.txt").write_text("\n".join(outcome.timeline))
    for name, text in stack.logs():
        (logs / f"{name}.log").write_text(text)
    broker.stop()  # a running broker deletes files while they are copied
    shutil.copy(broker.log, logs / "broker.log")
    shutil.copytree(broker.folder / "data", logs / "data")


class _Run:
    """The state of a run."""

    def __init__(
        self, scenario: Scenario, broker: Broker, stack: Stack, store: Path, outcome: Outcome
    ) -> None:
        self.scenario, self.outcome = scenario, outcome
        self.supervisor = Supervisor(stack)
        self.outages = Outages(broker, stack, self.supervisor, self._note)
        self._drain = Drain(stack)
        self._stack, self._store = stack, store
        draw = random.Random(scenario.seed)
        self._records = draw_records(draw, scenario.records, scenario.fed())
        self._feeder = Feeder(broker.address, stack.name, self._records, PARTS)
        self._acts = sorted(self._planned(), key=lambda act: act[0])

    def run(self) -> None:
        """Go through all phases; add what differs to the outcome."""
        for service, count in self.scenario.replicas.items():
            for slot in range(count):
                self.supervisor.want(Replica(service, str(slot)))
        begun_s = time.monotonic()
        self._await(self._up, "the services to start")
        self._disturb((time.monotonic() - begun_s) / START_S)
        try:
            self._calm()
        finally:
            self._require_ends()
        stack, outcome = self._stack, self.outcome
        outcome.restarts = self.supervisor.restarts.total()
        found = record(stack.config, stack.admin, stack.plan)
        made = (self.scenario.options[each] for each in ("chains", "joins", "patterns"))
        verdict = judge(stack.plan, self._records, found, *made)
        outcome.differences += verdict.differences
        outcome.figures = verdict.figures

    def _up(self) -> bool:
        logs = [self._stack.log(*replica) for replica in self._stack.processes]
        wanted = sum(self.scenario.replicas.values())
        return len(logs) == wanted and all("transactional id" in log for log in logs)

    def _planned(self) -> list[tuple[float, Callable[[], None]]]:
        """Return what to do when."""
        acts: list[tuple[float, Callable[[], None]]] = [
            (part * FEED_S / PARTS, self._feeder.feed) for part in range(self._feeder.parts)
        ]
        if self.scenario.aborts:
            topic, numbers = next(iter(self.scenario.fed().items()))
            for n, at_s in enumerate((2.0, 9.0, 16.0)):
                number = numbers[n % len(numbers)]
                acts.append((at_s, partial(self._feeder.abort, topic, number)))
        for fault in self.scenario.faults:
            acts.append((fault.at_s, partial(self._inject, fault)))
        return acts

    def _disturb(self, slowness: float) -> None:
        """Feed and hurt, each at its time; on a slow machine all of that takes longer."""
        begun_s = time.monotonic()
        stretch = min(max(1.0, slowness), MOST_STRETCH)
        for at_s, act in self._acts:
            while time.monotonic() - begun_s < at_s * stretch:
                self._turn()
            act()
        while self.outages.lasts:
            self._turn()

    def _turn(self) -> None:
        now_s = time.monotonic()
        self.supervisor.tick(now_s)
        self.outages.tick(now_s)
        time.sleep(_TURN_S)

    def _inject(self, fault: Fault) -> None:
        self._note(f"{fault}")
        if self._hit(fault):
            self.outcome.injected[fault.kind] += 1
        else:
            self._note("  had nothing to hit")

    def _note(self, what: str) -> None:
        at = datetime.now().astimezone()
        self.outcome.timeline.append(f"{at:%H:%M:%S}.{at.microsecond // 1000:03d} {what}")

    def _hit(self, fault: Fault) -> bool:
        """Do what a fault says; return whether there was something to hit."""
        supervisor, now_s = self.supervisor, time.monotonic()
        to_replica = {
            "kill": supervisor.kill,
            "stop": supervisor.stop,
            "freeze": supervisor.freeze,
            "long freeze": supervisor.freeze,
            "twin": supervisor.twin,
            "store full": supervisor.fill_store,
            "store denied": supervisor.deny_store,
        }
        replica = Replica(fault.service, fault.slot)
        if fault.kind in to_replica:
            return to_replica[fault.kind](replica, fault.for_s, now_s)
        match fault.kind:
            case "scale out":
                return supervisor.want(replica)
            case "scale in":
                several = supervisor.wanted(fault.service) > 1
                return several and supervisor.stop(replica, None, now_s)
            case "kill all":
                hit = [supervisor.kill(r, fault.for_s, now_s) for r in self._stack.processes]
                return any(hit)
            case "store damaged":
                return self._damage_store(fault.for_s, now_s)
        return self.outages.begin(fault.kind, fault.for_s)

    def _damage_store(self, away_s: float, now_s: float) -> bool:
        """Kill all keyed services, and write over a part of some of their files."""
        keyed = [r for r in self._stack.processes if r.service != "ingest"]
        for replica in keyed:
            self.supervisor.kill(replica, away_s + 1.0, now_s)
        for replica in keyed:
            self._stack.processes[replica].wait()
        files = sorted(path for path in self._store.rglob("*") if path.is_file())
        draw = random.Random(len(files))
        for path in draw.sample(files, len(files) // 3):
            with path.open("r+b") as file:
                file.seek(draw.randrange(path.stat().st_size + 1))
                file.write(b"\xff" * 64)
        return bool(files)

    def _calm(self) -> None:
        """Let all records come through; stop ingest, then the services behind it."""
        supervisor, stack = self.supervisor, self._stack
        self._note("calm")
        supervisor.calm(time.monotonic())
        if not self._feeder.flush():
            raise NotDrainedError("the feeder could not write its records")
        raw = [
            Partition(f"{stack.name}-{topic}", number)
            for topic, count in self.scenario.partitions.items()
            for number in range(count)
        ]
        self._await(lambda: self._drain.is_done("ingest", raw), "ingest to read all")
        supervisor.stop_service("ingest")
        inputs = {service: self._inputs(service) for service in stack.plan.services()[1:]}
        self._await(lambda: self._drain.are_done(inputs), "the operators to read all")
        for service in inputs:
            supervisor.stop_service(service)

    def _inputs(self, service: str) -> list[Partition]:
        """Return what a keyed service reads: logs, and the progress topics of its stages."""
        plan = self._stack.plan
        counts = topics.partition_counts(self._stack.admin)
        return [
            Partition(topic, number)
            for topic in topics_of(plan, service)
            for number in range(counts[topic])
        ]

    def _require_ends(self) -> None:
        """Wait until no transaction is open; a broker that was hurt may have lost an end."""
        stack = self._stack
        stack.kill()
        deadline_s = time.monotonic() + ENDS_S
        while stuck := self._drain.open_ended():
            if time.monotonic() > deadline_s:
                names = ", ".join(map(str, stuck))
                if self.outcome.broker_was_hurt:
                    raise LostEndError(names)
                raise NotDrainedError(f"a transaction never ends on {names}")
            time.sleep(1.0)

    def _await(self, happened: Callable[[], bool], what: str) -> None:
        deadline_s = time.monotonic() + PATIENCE_S
        while True:
            self.supervisor.tick(time.monotonic())
            if happened():
                return
            if time.monotonic() > deadline_s or self.supervisor.differences:
                raise NotDrainedError(
                    f"waited up to {PATIENCE_S:.0f} s for {what}: {self._drain.behind}"
                )
            time.sleep(4 * _TURN_S)
