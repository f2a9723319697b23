"""How many examples properties draw, and which tests stay together where processes share them.

Hypothesis draws twelve examples each, the same ones in every run of the same code.  So a run that
passes here passes elsewhere.  HYPOTHESIS_PROFILE selects others: ``random`` draws thirty new ones,
and ``thorough`` a thousand, to find what the twelve miss.
"""

import os

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]

COMMON = settings(deadline=None, suppress_health_check=SLOW)

settings.register_profile("default", COMMON, max_examples=12, derandomize=True)
settings.register_profile("random", COMMON, max_examples=30)
settings.register_profile("thorough", COMMON, max_examples=1_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

TOGETHER = (
    ("/test_local_stack.py",),
    ("/test_security.py",),
    ("/test_archive.py",),
    ("/test_trials_of_replay.py",),
    ("/spark/replay/test_chains.py",),
    ("/spark/test_replay.py", "/test_from_raw.py", "/test_into_live.py", "/test_submitted.py"),
)
"""Modules, by the ends of their paths, whose tests share a fixture that takes long to make: one
process runs them all."""

FIRST = ("test_window_kinds.py", "test_on_spark.py")
"""Modules with a test so long that all other processes would wait for it at the end."""

LONG_IN = {"kafka", "spark"}
"""Folders with long tests: those of which `make rest` runs what `make test` leaves out."""


CRASHED = pytest.StashKey[bool]()
"""Whether a process that runs tests has crashed."""


class Together(LoadScopeScheduling):  # type: ignore[misc]  # xdist has no types
    """Hands out test by test, except for the modules of ``TOGETHER``: ``--dist loadscope``."""

    def _split_scope(self, nodeid: str) -> str:
        module = nodeid.partition("::")[0]
        return next((ends[0] for ends in TOGETHER if module.endswith(ends)), nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Together | None:
    return Together(config, log) if config.getvalue("dist") == "loadscope" else None


def pytest_testnodedown(node: WorkerController, error: object) -> None:
    """Note that a process has crashed: xdist may leave out the tests that it had still to run."""
    node.config.stash[CRASHED] = node.config.stash.get(CRASHED, default=False) or bool(error)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """End with another status than failed tests do: to run those again is not enough."""
    if session.config.stash.get(CRASHED, default=False):
        session.exitstatus = pytest.ExitCode.INTERNAL_ERROR


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("long") and not LONG_IN & {*item.nodeid.split("/")}:
            raise pytest.UsageError(f"{item.nodeid} is long, and `make rest` would not run it")
    items.sort(key=lambda item: item.path.name not in FIRST)
