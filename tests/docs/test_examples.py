"""Each example runs over its generated events, and cuts change nothing."""

import importlib
import json

import pytest

from examples.events import EXAMPLES, raw_values
from tests.support.local_results import finished
from tidemark import load_pipeline
from tidemark.core.operators.patterns.rules.operator import LATE_RULES


def written(plan, values, seed):
    return finished(plan, values, seed)[1]


@pytest.mark.parametrize("example", EXAMPLES)
def test_an_example_runs_over_its_events(example):
    importlib.import_module(f"examples.{example}")
    plan = load_pipeline(f"examples.{example}").plan()
    values = raw_values(example, plan.named_topics, 2_000)
    whole = written(plan, values, None)
    topics = {json.loads(line)["topic"] for line in whole.splitlines()}
    every = {topic for operator in plan.operators for topic in operator.topics}
    loaded = {topic for topic in every if topic.endswith(LATE_RULES)}  # no rule comes after rows
    assert every - loaded <= topics
    assert written(plan, values, 5) == whole
