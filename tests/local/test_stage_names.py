"""Names of stages, of their topics and of keys: docs/semantics.md, "Chains"."""

import re

import pytest

from tests.support.clicks import MINUTE, clicks
from tests.support.mistakes import refused
from tidemark import Pipeline, bounded, col, count, tumbling
from tidemark import sum as total


def test_names_beyond_ascii_keep_stages_apart_whatever_their_order():
    def stages(*keys):
        pipeline = Pipeline("game", 1)
        stream = clicks(pipeline).with_columns(**{key: col("user") for key in keys})
        for key in keys:
            sums = stream.key_by(key).window(MINUTE).aggregate(größe=count())
            sums.key_by(key).window(tumbling("1h")).aggregate(n=total("größe")).to(f"o{ord(key)}")
        return {each.operator for each in pipeline.plan().derived}

    one, two = stages("数", "値"), stages("値", "数")
    assert one == two
    assert len(one) == 2
    for name in one:
        assert re.fullmatch(r"[0-9a-f]{8}\.tumbling-1m\.gr-e-[0-9a-f]{8}", name)


def test_a_key_that_is_renamed_to_its_own_name_is_the_key():
    pipeline = Pipeline("game", 1)
    clicks(pipeline).key_by(user="user").window(MINUTE).aggregate(n=count()).to("counts")
    (log,) = pipeline.plan().logs
    assert (log.topic, [*log.key]) == ("game.by-user.log", ["user"])


def test_stages_that_are_alike_have_numbers():
    pipeline = Pipeline("game", 1)
    stream = clicks(pipeline)
    for number in range(2):
        counts = (
            stream.filter(col("at") > number).key_by("user").window(MINUTE).aggregate(n=count())
        )
        counts.key_by("user").window(tumbling("1h")).aggregate(n=total("n")).to(f"out{number}")
    names = [each.operator for each in pipeline.plan().derived]
    assert names == ["user.tumbling-1m.n", "user.tumbling-1m.n-2"]


def beside_a_stage(output="out", source="other"):
    """Return a pipeline with stage user.tumbling-1m.n, another output and another source."""
    pipeline = Pipeline("game", 1)
    other = pipeline.source(
        source, schema={"user": str, "at": int}, event_time="at", watermark=bounded("5s")
    )
    other.key_by("user").to("rows")
    counts = clicks(pipeline).key_by("user").window(MINUTE).aggregate(n=count())
    counts.to(output)
    counts.filter(col("n") > 1).to("many")
    return pipeline


def test_an_output_cannot_have_the_name_of_a_stage():
    assert [each.operator for each in beside_a_stage().plan().derived] == ["user.tumbling-1m.n"]
    with refused("to('user.tumbling-1m.n'): a stage of the pipeline has this name"):
        beside_a_stage("user.tumbling-1m.n").plan()


@pytest.mark.parametrize("end", ["late", "changelog", "progress"])
def test_the_topics_of_a_stage_are_its_own(end):
    name = f"user.tumbling-1m.n.{end}"
    message = f"topic 'game.{name}' belongs to stage 'user.tumbling-1m.n'"
    with refused(message):
        beside_a_stage(output=name).plan()
    with refused(message):
        beside_a_stage(source=f"game.{name}").plan()
