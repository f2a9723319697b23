"""Print verdicts as lines of text; the last line is the count."""

import json
from collections.abc import Iterable, Iterator, Sequence

from tidemark.conformance.case import Fields
from tidemark.conformance.judge import Outcome, Verdict


def lines(verdicts: Sequence[Verdict]) -> Iterator[str]:
    """Yield the cases not offered, the failures with expected and actual results, and the count."""
    not_offered = [each for each in verdicts if each.outcome is Outcome.NOT_OFFERED]
    failed = [each for each in verdicts if each.outcome is Outcome.FAILED]
    for verdict in not_offered:
        yield f"not offered  {verdict.case.id}  {verdict.instead}"
    if not_offered:
        yield f"{len(not_offered)} not offered, neither passed nor failed"
    for verdict in failed:
        yield from failure_lines(verdict)
    passed = len(verdicts) - len(not_offered) - len(failed)
    yield f"{passed} passed, {len(failed)} failed"


def failure_lines(verdict: Verdict) -> Iterator[str]:
    """Yield the expected and actual results of a failed case."""
    case, difference = verdict.case, verdict.difference
    yield f"FAILED {case.id} ({case.dialect}): {case.note}"
    yield from _listed("expected", difference.missing)
    yield from _listed("got", difference.unexpected)
    for words in difference.words:
        yield f"  {words}"


def _listed(title: str, results: Iterable[Fields]) -> Iterator[str]:
    some = False
    for result in results:
        some = True
        yield f"  {title:8}  {json.dumps(result, default=str)}"
    if not some:
        yield f"  {title:8}  nothing more"
