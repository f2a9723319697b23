"""The command ``tidemark conformance``: case files of other engines' tests, run and judged."""

from pathlib import Path
from typing import Annotated

import typer

from tidemark.conformance.case import read_cases
from tidemark.conformance.judge import Outcome, judge
from tidemark.conformance.report import lines


def conformance(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Case files, JSON arrays.")],
) -> int:
    """Run shared cases of windowing semantics through the operators of the services.

    Prints expected and actual results of each failed case, and the rule by which a case of a
    dialect is skipped.  Exit status 1 if a case failed.
    """
    verdicts = [judge(case) for case in read_cases(files)]
    for line in lines(verdicts):
        typer.echo(line)
    return int(any(verdict.outcome is Outcome.FAILED for verdict in verdicts))
