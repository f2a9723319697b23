"""The progress of a restore: a bar on a terminal, else lines in the log, and figures.

See docs/operations.md, "Restore".  Progress is counted in offsets.  Transactions and compaction
leave some offsets empty, so the time left is an estimate.
"""

import logging
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tidemark.partition import Partition

_log = logging.getLogger("tidemark")

_LOG_EVERY_S = 2.0
_DRAW_EVERY_S = 0.1


@dataclass(frozen=True, slots=True)
class ChangelogProgress:
    """Progress of one changelog partition: offsets read and in total, and the time left."""

    at: Partition
    done: int
    total: int
    eta_s: float | None

    def __str__(self) -> str:
        share = self.done / self.total if self.total else 1.0
        left = "" if self.eta_s is None else f", {self.eta_s:.0f} s left"
        return f"{self.at}: {share:.0%}{left}"


class RestoreProgress:
    """The progress of one restore over all its changelog partitions."""

    def __init__(self, totals: Mapping[Partition, int], now_s: float) -> None:
        """``totals``: the number of offsets to read from each partition."""
        self.partitions = list(totals)
        self._totals = dict(totals)
        self._left = dict(totals)
        self._bytes = 0
        self._begun_s = self._now_s = self._logged_s = now_s
        self._bar = _Bar() if sys.stderr.isatty() and any(totals.values()) else None

    def read_bytes(self, count: int) -> None:
        """Add bytes that were read."""
        self._bytes += count

    def keep(self, partitions: Collection[Partition]) -> None:
        """Continue with some partitions only."""
        self.partitions = [at for at in self.partitions if at in partitions]

    def note(self, left: Mapping[Partition, int], now_s: float, *, done: bool) -> None:
        """Take the offsets left in each partition; show or log them from time to time."""
        self._left.update(left)
        self._now_s = now_s
        if self._bar is not None:
            self._bar.draw(self._share(), self._words(), now_s)
        if done and any(self._totals.values()):
            _log.info(
                "restored %d changelogs, %.1f MB in %.1f s",
                len(self.partitions),
                self._bytes / 1e6,
                now_s - self._begun_s,
            )
        elif self._bar is None and now_s - self._logged_s > _LOG_EVERY_S:
            self._logged_s = now_s
            _log.info("restoring %d changelogs: %s", len(self.partitions), self._words())

    def _share(self) -> float:
        total = sum(self._totals[at] for at in self.partitions)
        left = sum(self._left[at] for at in self.partitions)
        return (total - left) / total if total else 1.0

    def _words(self) -> str:
        share, took_s = self._share(), max(self._now_s - self._begun_s, 1e-3)
        rate = self._bytes / took_s / 1e6
        rest = f", {took_s * (1 - share) / share:.0f} s left" if share else ""
        return f"{share:.0%}, {rate:.1f} MB/s{rest}"

    def of_changelogs(self) -> list[ChangelogProgress]:
        """Return the progress of each partition."""
        took_s = self._now_s - self._begun_s
        found = []
        for at in self.partitions:
            total, left = self._totals[at], self._left[at]
            done = total - left
            found.append(ChangelogProgress(at, done, total, took_s * left / done if done else None))
        return found

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()


class _Bar:
    """A progress bar on stderr."""

    def __init__(self) -> None:
        # Only a terminal has a bar; elsewhere a service need not import these.
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn

        columns = (TextColumn("restoring"), BarColumn(), TextColumn("{task.description}"))
        console = Console(stderr=True)
        self._progress = Progress(*columns, console=console, transient=True, auto_refresh=False)
        self._task = self._progress.add_task("", total=1.0)
        self._progress.start()
        self._drawn_s = 0.0

    def draw(self, share: float, words: str, now_s: float) -> None:
        """Show a share from 0 to 1, at most ten times a second."""
        if now_s - self._drawn_s > _DRAW_EVERY_S:
            self._drawn_s = now_s
            self._progress.update(self._task, completed=share, description=words, refresh=True)

    def close(self) -> None:
        """Remove the bar from the terminal."""
        self._progress.stop()
