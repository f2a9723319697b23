"""A stack whose services are processes of the command that a supervisor starts, not forks."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.kafka.support.stack import Replica, Stack
from tidemark.embedded.processes import die_with_parent


class Commands(Stack):
    """A stack; ``start`` too takes what ``launch`` does."""

    def launch(  # type: ignore[override]  # no variable is named in lower case
        self,
        replica: Replica,
        log: Path,
        before: Callable[[], None] = die_with_parent,
        **env: str,
    ) -> subprocess.Popen[bytes]:
        """Run a process of a service, in which ``before`` runs first; it is the caller's to end."""
        with log.open("w") as stderr:
            return subprocess.Popen(
                [sys.executable, "-m", f"services.{replica.service}"],
                env=self.environment(replica, env),
                stderr=stderr,
                preexec_fn=before,
            )
