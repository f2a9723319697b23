"""Public bug trials that need no Kafka, each with a cut of its own; properties draw all others.

Where the others are: ``grep -rn "def test_.*b31" tests``.
"""

import pytest

from tests.trials.differences import differences
from tests.trials.listed import TRIALS, runnable
from tests.trials.trial import SmallCuts, run


def test_the_trials_of_time_and_json_are_among_those_that_run():
    ran = {name for name, trial in TRIALS.items() if runnable(trial)}
    assert ran >= {
        "B02",
        "B07",
        "B09",
        "B11",
        "B13",
        "B14",
        "B18",
        "B20",
        "B22",
        "B26",
        "B40",
        "B44",
    }


@pytest.mark.parametrize("name", [name for name, trial in TRIALS.items() if runnable(trial)])
def test_trial(name):
    trial = TRIALS[name]
    seen = run(trial, SmallCuts(seed=int(name.removeprefix("B"))))
    wrong = list(differences(trial["expected"], seen, trial["spec"]))
    assert not wrong, "\n".join(wrong)
