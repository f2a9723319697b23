"""Find cases of patterns whose result depends on a rule that other systems have."""

from itertools import pairwise

from tidemark.conformance.case import Case
from tidemark.conformance.patterns import NEVER, NOT_NEXT, rows_of


def patterns_differ(case: Case) -> str | None:
    """Return the rule by which a pattern of the case differs, a key of RULES."""
    if "pattern" not in case.spec:
        return None
    stated = case.spec["pattern"]
    steps = stated["steps"]
    if stated.get("within_type") == "previous_and_current" and len(steps) > 2:
        return "pattern time"
    if any(step.get("contiguity") == NOT_NEXT for step in steps):
        return "not next"
    for step, later in pairwise(steps):
        if later.get("contiguity") == NEVER and rows_of(step)[1] != 1:
            return "never"
    return None
