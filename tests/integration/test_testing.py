"""The scenarios of tests/testing on a broker, word for word."""

import pytest

from tests.testing.steps import PIPELINE, SCENARIOS, move
from tidemark.errors import ConfigurationError
from tidemark.testing import MismatchError, OnBroker


@pytest.fixture
def module(tmp_path):
    name = f"steps-{tmp_path.name.replace('_', '-')}"
    file = tmp_path / f"{tmp_path.name}_steps.py"
    file.write_text(PIPELINE.format(name=name))
    return str(file)


@pytest.mark.parametrize(("scenario", "partitions"), SCENARIOS.items())
def test_scenarios_hold_on_a_broker(broker, scenario, partitions, module):
    with OnBroker(module, broker, raw_partitions=partitions) as run:
        scenario(run)


def test_a_mismatch_is_told_and_topics_of_another_test_are_refused(broker, module):
    with OnBroker(module, broker) as run:
        moves = run.plan.sources[0].topic
        run.send(moves, move("a", 1_000))
        run.advance(moves, 12_000)
        with pytest.raises(MismatchError, match="found: 1"):
            run.expect_panes("pops", {"player": "a", "pops": 2})
        assert "started" in run.log("ingest")
    with pytest.raises(ConfigurationError, match="holds records of another test"):
        OnBroker(module, broker)
