"""The timeouts of a pattern as the main results of an operator.

See docs/semantics.md, "Patterns".  Operators that follow read the main port alone, so timeouts that
are a stream come from an operator of their own.
"""

from dataclasses import dataclass
from functools import cached_property

from tidemark.core.operators.patterns.operator import TIMEOUTS, PatternMatch
from tidemark.core.operators.ports import Port, late_port


@dataclass(frozen=True)
class PatternTimeouts(PatternMatch):
    """The partial matches that ran out of time; matches count for ``skip`` alone."""

    @cached_property
    def outputs(self) -> tuple[Port, ...]:
        """The ports of timeouts and of late rows."""
        return self._results.port(TIMEOUTS), late_port(self.key, self.columns)
