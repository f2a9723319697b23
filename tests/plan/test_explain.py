"""How a plan is shown: as text and as a diagram."""

import textwrap

from tests.plan.pipelines import game, publish, raw
from tidemark import (
    Pipeline,
    col,
)
from tidemark.plan.explain import render_mermaid, render_text


def test_the_time_that_silence_matters_is_in_units_that_people_read():
    assert "  a silent source is reported for 11m 2s" in render_text(game().plan()).splitlines()


def test_the_text_shows_the_logical_graph_and_the_physical_plan():
    assert (
        render_text(game().plan()).splitlines()[2:22]
        == textwrap.dedent(
            """\
        logical graph
            1  source moves (player String, at Int64, score Int64, kind String), event time at (ms), watermark bounded(2s), idle after 10s, max future 1h
            2  filter([(col("kind")) == ("pop")])  <- 1
            3  key_by(player)  <- 2
            4  pops=count(), score=sum("score") in tumbling(1m), allowed lateness 10m  <- 3
            5  to pops-per-minute (json)  <- 4
            6  moves=count(), best=max("score") in session(30s), strict  <- 3
            7  to play-sessions (json)  <- 6

        physical plan
          service    reads               writes                                 tasks
          ingest     moves               game.by-player.log, game.dead-letters  1 per raw partition
          windowing  game.by-player.log  game.pops-per-minute                   4, 1 per log partition
          sessions   game.by-player.log  game.play-sessions                     4, 1 per log partition

          topic                           partitions  what
          moves                           as it is    raw
          game.by-player.log              4           log
          game.pops-per-minute            4           results, json
          game.pops-per-minute.late       4           late rows
        """  # noqa: E501
        ).splitlines()
    )


def test_a_step_behind_a_union_of_sources_is_shown_once():
    pipeline = Pipeline("p")
    left, right = raw(pipeline, "left"), raw(pipeline, "right")
    both = left.union(right.filter(col("n") > 0)).filter(col("n") < 9)
    publish(both, ["id"], "out")
    shown = render_text(pipeline.plan()).splitlines()[3:10]
    assert [line.split(" (id Int64")[0] for line in shown] == [
        "    1  source left",
        "    2  source right",
        '    3  filter([(col("n")) > (dyn int: 0)])  <- 2',
        "    4  union  <- 1, 3",
        '    5  filter([(col("n")) < (dyn int: 9)])  <- 4',
        "    6  key_by(id)  <- 5",
        "    7  rows=count() in tumbling(1m)  <- 6",
    ]


def test_a_diagram_escapes_what_its_syntax_would_read():
    diagram = render_mermaid(game().plan())
    assert diagram.startswith("flowchart LR\n")
    assert "filter([(col(#quot;kind#quot;)) == (#quot;pop#quot;)])" in diagram
    assert '    p0[("moves")] --> ingest' in diagram
    assert '    windowing --> p3[("game.pops-per-minute")]' in diagram
