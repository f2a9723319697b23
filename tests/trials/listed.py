"""The list of public bug trials, and which of them can run without Kafka."""

import json
from pathlib import Path

from tests.trials.trial import RECORDS, steps_of

FILE = Path(__file__).parent / "cases" / "bug-trials.json"
TRIALS = {trial["id"]: trial for trial in json.loads(FILE.read_text())}

NEEDS_KAFKA = {
    "B03": "idleness is a fact of the broker",
    "B05": "silence is a fact of the broker",
    "B24": "sizes of messages are the broker's",
    "B60": "networks of containers",
}
"""Trials whose records could be read here, but not what they are about."""


def runnable(trial):
    spec = trial["spec"]
    plain = steps_of(trial) <= set(RECORDS) and spec.get("window") in ("tumbling", "session")
    return plain and spec.get("emit") == "final" and trial["id"] not in NEEDS_KAFKA
