"""Public bug trials that are about replays, as one pipeline: a raw topic and an operator each."""

import os

from tests.trials.listed import TRIALS
from tests.trials.trial import add_trial
from tidemark import Pipeline

__all__ = ["NAMES", "TRIALS", "build", "pipeline"]

NAMES = tuple(name for name, trial in TRIALS.items() if "replay_equals_live" in trial["expected"])


def build(name: str) -> Pipeline:
    """Return the pipeline; its raw topics are ``<name>-<trial>``."""
    pipeline = Pipeline(name, partitions=1)
    for trial in NAMES:
        topic = f"{name}-{trial}"
        add_trial(pipeline, topic, TRIALS[trial]["spec"], str, trial.lower(), idle_after="1h")
    return pipeline


pipeline = build(os.environ.get("TEST_PIPELINE", "trials"))
