"""Each example runs over its generated events, and cuts change nothing."""

import importlib
import json
import random
from itertools import islice

import pytest

from examples.events import EXAMPLES
from tests.support.local_results import finished
from tidemark import load_pipeline


def written(plan, lines, seed):
    return finished(plan, {plan.named_topics[0]: lines}, seed)[1]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs_over_its_events(example):
    importlib.import_module(f"examples.{example}")
    plan = load_pipeline(f"examples.{example}").plan()
    lines = [json.dumps(e).encode() for e in islice(EXAMPLES[example](random.Random(1)), 2_000)]
    whole = written(plan, lines, None)
    topics = {json.loads(line)["topic"] for line in whole.splitlines()}
    assert {topic for operator in plan.operators for topic in operator.topics} <= topics
    assert written(plan, lines, 5) == whole
