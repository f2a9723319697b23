"""Each public bug trial is run from its file, or is a test of its name."""

import re
from pathlib import Path

from tests.trials.listed import TRIALS, runnable


def test_each_trial_is_proved_by_a_test():
    code = "".join(path.read_text() for path in Path(__file__).parents[1].rglob("test_*.py"))
    tests = re.findall(r"^def (test_\w+)", code, re.MULTILINE)
    named = {number.upper() for test in tests for number in re.findall(r"_(b\d\d)(?=_)", test)}
    proved = {name for name, trial in TRIALS.items() if runnable(trial)} | named
    assert proved >= TRIALS.keys()
