"""Public bug trials that need no Kafka, each whole, record by record, and cut at random.

Where the others are: ``grep -rn "def test_.*b31" tests``.
"""

import pytest

from tests.trials.differences import differences
from tests.trials.listed import FILE, TRIALS, runnable
from tests.trials.trial import CUTS, run


def test_the_trials_of_time_and_json_are_among_those_that_run():
    assert TRIALS, f"no trials in {FILE}; set TIDEMARK_TRIALS"
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


@pytest.mark.parametrize("cuts", CUTS)
@pytest.mark.parametrize("name", [name for name, trial in TRIALS.items() if runnable(trial)])
def test_trial(name, cuts):
    trial = TRIALS[name]
    wrong = list(differences(trial["expected"], run(trial, CUTS[cuts]), trial["spec"]))
    assert not wrong, "\n".join(wrong)
