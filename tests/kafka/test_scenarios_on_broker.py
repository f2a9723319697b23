"""The scenarios of tests/support on a broker, word for word."""

import pytest

from tests.support.scenarios import SCENARIOS, module, move
from tidemark.errors import ConfigurationError
from tidemark.testing import MismatchError, OnBroker


def written(folder, idle_after):
    name = f"steps-{folder.name.replace('_', '-')}"
    file = folder / f"{folder.name}_steps.py"
    file.write_text(module(name, idle_after))
    return str(file)


@pytest.mark.parametrize(
    ("scenario", "partitions", "idle_after"),
    [SCENARIOS[0], *(pytest.param(*each, marks=pytest.mark.long) for each in SCENARIOS[1:])],
)
def test_scenarios_hold_on_a_broker(broker, scenario, partitions, idle_after, tmp_path):
    with OnBroker(written(tmp_path, idle_after), broker, raw_partitions=partitions) as run:
        scenario(run)


def test_a_mismatch_is_told_and_topics_of_another_test_are_refused(broker, tmp_path):
    pipeline = written(tmp_path, "1h")
    with OnBroker(pipeline, broker) as run:
        moves = run.plan.named_topics[0]
        run.send(moves, move("a", 1_000))
        run.advance(moves, 12_000)
        with pytest.raises(MismatchError, match="found: 1"):
            run.expect_panes("pops", {"player": "a", "pops": 2})
        assert "started" in run.log("ingest")
    with pytest.raises(ConfigurationError, match="holds records of another test"):
        OnBroker(pipeline, broker)
