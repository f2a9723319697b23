"""The tables that a sink does not deliver, while it goes on with the others.

See docs/sinks.md, "Tables that stop".  A table stops for a reason that a person must mend.  The
sink tries such tables again once a minute, and when their topics have a new generation.
"""

from collections.abc import Callable, Collection, Mapping, Sequence

from tidemark.errors import ConfigurationError
from tidemark.runtime.service.trouble_log import TroubleLog
from tidemark.sinks.table import Table

_AGAIN_S = 60.0


class StoppedTables:
    """The tables that have stopped, each with what is wrong and what helps."""

    def __init__(self, tables: Sequence[Table], as_typed: Callable[[str], str]) -> None:
        """Start empty; ``as_typed``: makes the commands of a line work as they are."""
        self._tables = tables
        self._as_typed = as_typed
        self._reasons: dict[str, str] = {}
        self._log = TroubleLog()
        self._tried_s = 0.0

    @property
    def topics(self) -> Collection[str]:
        """The topics of the tables."""
        return [table.topic for table in self._tables if table.name in self._reasons]

    @property
    def lines(self) -> list[str]:
        """A line for each table, as the log and health show it."""
        return [
            self._as_typed(f"table {name} has stopped: {reason}")
            for name, reason in self._reasons.items()
        ]

    def replace(self, reasons: Mapping[str, str], now_s: float) -> None:
        """Set all tables that have stopped, by name; ``now_s``: monotonic."""
        self._reasons = {}
        if reasons:
            self.add(reasons)
        self._tried_s = now_s

    def add(self, reasons: Mapping[str, str]) -> None:
        """Stop more tables.

        Raises:
            ConfigurationError: the sink has named no table, or one that it was not given.
        """
        names = {table.name for table in self._tables}
        if not reasons or not names >= reasons.keys():
            raise ConfigurationError(
                f"the sink says that {', '.join(reasons) or 'no table'} has stopped; there are "
                f"{', '.join(sorted(names))}"
            )
        self._reasons |= reasons

    def require_others(self) -> None:
        """Raise if no table is left.

        Raises:
            ConfigurationError: has the lines of all tables.
        """
        if len(self._reasons) == len(self._tables):
            raise ConfigurationError("; ".join(self.lines))

    def are_due(self, now_s: float) -> bool:
        """Return whether it is time to try stopped tables again; ``now_s``: monotonic."""
        return bool(self._reasons) and now_s - self._tried_s >= _AGAIN_S

    def report(self, now_s: float) -> None:
        """Log the tables when they change, and once a minute; ``now_s``: monotonic."""
        self._log.report([f"{line}. The other tables go on" for line in self.lines], now_s)
