"""``tidemark dead-letters retry`` that stands still within its transaction.

All records of the transaction are at the brokers.  It prints a line, and commits once the file of
its first argument exists.
"""

import sys
import time
from pathlib import Path
from typing import Any

from tidemark.commands.cli import main
from tidemark.runtime.client import clients


class StallingProducer:
    """A producer whose commits wait for a file."""

    def __init__(self, producer: Any, file: Path) -> None:
        self._producer, self._file = producer, file

    def __getattr__(self, name: str) -> Any:
        return getattr(self._producer, name)

    def commit_transaction(self, timeout_s: float) -> None:
        self._producer.flush(timeout_s)
        sys.stdout.write("stands still\n")
        sys.stdout.flush()
        while not self._file.exists():
            time.sleep(0.05)
        self._producer.commit_transaction(timeout_s)


if __name__ == "__main__":
    file = Path(sys.argv.pop(1))
    real = clients.transactional_producer

    def stalling(*arguments: Any, **named: Any) -> Any:
        return StallingProducer(real(*arguments, **named), file)

    clients.transactional_producer = stalling
    main()
