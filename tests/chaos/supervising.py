"""Keeps the replicas of a stack running as a supervisor does, and hurts them when told to.

A process that ends by itself with status 1 is started again after a pause.  Any other end that
nobody caused is a difference; so is a traceback, since only the infrastructure may fail here.
"""

import resource
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from tests.forked import Process
from tests.kafka.support.stack import Replica, Stack
from tidemark.embedded.processes import die_with_parent

PAUSE_S = 0.5
STOP_S = 180.0
"""How long a process may take to stop: it must commit first, and the broker may be away."""

FENCED = {1, 2}
"""How processes end that share a slot."""

STOPPED = {0, -signal.SIGTERM}
"""How processes end that are told to: by the signal itself before they listen to it."""

REFUSED = 2
"""How a process ends that cannot use its folder of local state."""

SMALL_FILE_BYTES = 32 * 2**10


@dataclass
class _Life:
    """What a replica is meant to do: run, or be down until it is due again (None: for good)."""

    due_s: float | None = 0.0
    stopping_s: float | None = None
    frozen_until_s: float | None = None
    shared_until_s: float = 0.0
    struck: bool = False
    denied: bool = False
    before: Callable[[], None] = die_with_parent
    env: Mapping[str, str] = field(default_factory=dict)


class Supervisor:
    """The replicas of a stack; ``tick`` must be called many times a second."""

    def __init__(self, stack: Stack) -> None:
        """Start with nothing running."""
        self.stack = stack
        self.differences: list[str] = []
        self.restarts: Counter[str] = Counter()
        self._lives: dict[Replica, _Life] = {}
        self._twins: list[tuple[float, Process]] = []

    def want(self, replica: Replica) -> bool:
        """Have a replica run from the next tick on; say whether it was not wanted before."""
        life = self._lives.get(replica)
        if life is not None and (life.due_s is not None or replica in self.stack.processes):
            return False
        self._lives[replica] = _Life()
        return True

    def wanted(self, service: str) -> int:
        """Count the replicas of a service that run or will."""
        return sum(
            r.service == service and (life.due_s is not None or self._runs(r))
            for r, life in self._lives.items()
        )

    def kill(self, replica: Replica, away_s: float, now_s: float) -> bool:
        """End a replica at once; it is started again later."""
        if not self._runs(replica):
            return False
        self._lives[replica].struck = True
        self._lives[replica].due_s = now_s + away_s
        self.stack.processes[replica].kill()
        return True

    def fill_store(self, replica: Replica, away_s: float, now_s: float) -> bool:
        """Kill a replica; its next life finds no room in files, to its end."""
        if not self.kill(replica, away_s, now_s):
            return False
        self._lives[replica].before = _with_small_files
        return True

    def deny_store(self, replica: Replica, away_s: float, now_s: float) -> bool:
        """Kill a replica; it must refuse to start where its folder cannot be."""
        if not self.kill(replica, away_s, now_s):
            return False
        life = self._lives[replica]
        life.denied, life.env = True, {"TIDEMARK_STATE_DIR": "/dev/null/state"}
        return True

    def stop(self, replica: Replica, away_s: float | None, now_s: float) -> bool:
        """Ask a replica to stop; it is started again later, or stays away (None)."""
        if not self._runs(replica) or self._lives[replica].frozen_until_s is not None:
            return False
        life = self._lives[replica]
        life.due_s = None if away_s is None else now_s + away_s
        life.stopping_s = now_s
        self.stack.processes[replica].terminate()
        return True

    def freeze(self, replica: Replica, for_s: float, now_s: float) -> bool:
        """Let a replica stand still for a while."""
        if not self._runs(replica) or self._lives[replica].frozen_until_s is not None:
            return False
        self._lives[replica].frozen_until_s = now_s + for_s
        self.stack.processes[replica].send_signal(signal.SIGSTOP)
        return True

    def twin(self, replica: Replica, for_s: float, now_s: float) -> bool:
        """Run a second process with the slot of a replica for a while."""
        if not self._runs(replica):
            return False
        log = self.stack.folder / f"{replica.service}.{replica.slot}.twin{len(self._twins)}.log"
        self._twins.append((now_s + for_s, self.stack.launch(replica, log)))
        self._lives[replica].shared_until_s = now_s + for_s + STOP_S
        return True

    def is_frozen(self, replica: Replica) -> bool:
        """Whether a replica stands still."""
        return self._lives[replica].frozen_until_s is not None

    def _runs(self, replica: Replica) -> bool:
        """Whether a replica is there and nothing is ending it."""
        life = self._lives.get(replica)
        process = self.stack.processes.get(replica)
        if life is None or process is None or life.stopping_s is not None or life.struck:
            return False
        return process.poll() is None

    def tick(self, now_s: float) -> None:
        """Notice ends, start what is due, wake what stood still long enough."""
        for replica, life in self._lives.items():
            self._thaw(replica, life, now_s)
            if replica in self.stack.processes:
                self._watch(replica, life, now_s)
            elif life.due_s is not None and life.due_s <= now_s:
                self.stack.start(replica.service, slot=replica.slot, before=life.before, **life.env)
                life.before, life.env = die_with_parent, {}
        for until_s, process in self._twins:
            if until_s <= now_s and process.poll() is None:
                process.kill()
                process.wait()

    def _thaw(self, replica: Replica, life: _Life, now_s: float) -> None:
        if life.frozen_until_s is not None and life.frozen_until_s <= now_s:
            life.frozen_until_s = None
            if replica in self.stack.processes:
                self.stack.processes[replica].send_signal(signal.SIGCONT)

    def _watch(self, replica: Replica, life: _Life, now_s: float) -> None:
        status = self.stack.processes[replica].poll()
        if status is None:
            if life.stopping_s is not None and now_s - life.stopping_s > STOP_S:
                self.differences.append(f"{replica} did not stop within {STOP_S:.0f} s")
                self.stack.processes[replica].kill()
                life.stopping_s, life.struck = None, True
            return
        self._end(replica, life, status, now_s)

    def _end(self, replica: Replica, life: _Life, status: int, now_s: float) -> None:
        del self.stack.processes[replica]
        stopping, struck = life.stopping_s is not None, life.struck
        life.stopping_s, life.struck, life.frozen_until_s = None, False, None
        if struck or (stopping and status in STOPPED):
            return
        denied, life.denied = life.denied, False
        if denied and status == REFUSED:
            life.due_s = now_s + PAUSE_S
            return
        if status == 1 or (now_s < life.shared_until_s and status in FENCED):
            self.restarts[replica.service] += 1
            life.due_s = life.due_s if stopping else now_s + PAUSE_S
            return
        life.due_s = None
        self.differences.append(f"{replica} ended with status {status}: {self._words(replica)}")

    def _words(self, replica: Replica) -> str:
        lines = self.stack.log(*replica).splitlines()
        return lines[-1] if lines else "it said nothing"

    def calm(self, now_s: float) -> None:
        """Let everything run again that stands still, and end all twins."""
        for life in self._lives.values():
            life.frozen_until_s = now_s if life.frozen_until_s is not None else None
        self._twins = [(now_s, process) for _, process in self._twins]
        self.tick(now_s)

    def stop_service(self, service: str) -> None:
        """Stop all replicas of a service for good; each must say that it did."""
        now_s = time.monotonic()
        while any(self.stop(r, None, now_s) for r in self._lives if r.service == service):
            pass
        for replica, life in self._lives.items():
            if replica.service == service:
                life.due_s = None
        while any(replica.service == service for replica in self.stack.processes):
            time.sleep(0.05)
            self.tick(time.monotonic())

    def said(self) -> Iterator[str]:
        """Name every log with a traceback, or with counts that do not add up."""
        for name, text in self.stack.logs():
            if "Traceback (most recent call last)" in text:
                yield f"{name} has a traceback: {text.strip().splitlines()[-1]}"
            yield from (f"{name}: {line}" for line in text.splitlines() if not adds_up(line))

    def close(self) -> None:
        """Leave no twin behind."""
        for _, process in self._twins:
            process.kill()
            process.wait()


def adds_up(line: str) -> bool:
    """Say whether the counts of a progress line do; lines of another kind have none."""
    words = (word.split("=") for word in line.split() if word.count("=") == 1)
    counts = {name: int(value) for name, value in words if value.isdecimal()}
    fates = ("passed", "filtered", "dead", "blank")
    if counts.get("records", 0) != sum(counts.get(fate, 0) for fate in fates):
        return False
    operators = [name.removesuffix("rows") for name in counts if name.endswith("rows")]
    return all(counts[f"{n}rows"] == counts[f"{n}accepted"] + counts[f"{n}late"] for n in operators)


def _with_small_files() -> None:
    """Run in a new child: writing beyond the limit fails, as on a full disk."""
    die_with_parent()
    resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL_FILE_BYTES, SMALL_FILE_BYTES))
