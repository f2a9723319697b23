"""The scenarios of tests/support on a broker, word for word."""

import pytest

from tests.support.scenarios import SCENARIOS, module, move
from tidemark.commands.cli import app
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


def test_a_mismatch_a_flush_by_command_and_topics_of_another_test(broker, tmp_path, capsys):
    pipeline = written(tmp_path, "1h")
    with OnBroker(pipeline, broker) as run:
        moves = run.plan.named_topics[0]
        run.send(moves, move("a", 1_000))
        run.advance(moves, 12_000)
        with pytest.raises(MismatchError, match="found: 1"):
            run.expect_panes("pops", {"player": "a", "pops": 2})
        assert "started" in run.log("ingest")
        run.send(moves, move("b", 13_000))
        command = ["flush", pipeline, "--yes", "--bootstrap-server", broker]
        assert not app(command, standalone_mode=False)
        flushed = [
            "close what ends by 1970-01-01T00:00:28Z; what comes later and is older is late",
            f"write a flush record to 1 partitions of {moves}",
            "done: ingest has written the flush to the logs",
        ]
        assert capsys.readouterr().out.splitlines() == flushed
        run.expect_panes("pops", {"player": "a", "end": 10_000}, {"player": "b", "end": 20_000})
        assert f"{moves}/0: flushed up to 1970-01-01T00:00:28Z at offset 3" in run.log("ingest")
        run.crash("ingest")
        later = [*command, "--until", "1970-01-01T00:01:00Z", "--wait", "0.5"]
        assert not app(later, standalone_mode=False)
        assert capsys.readouterr().out.splitlines()[-1] == (
            "written; ingest has not read the flush within 0.5 s: it needs to run"
        )
        run.restart("ingest")
        assert not app(command, standalone_mode=False)
        assert capsys.readouterr().out.splitlines() == flushed
    with pytest.raises(ConfigurationError, match="holds records of another test"):
        OnBroker(pipeline, broker)
