"""The pipeline of the test of window kinds: an operator of each over the visits of people."""

import os
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import polars as pl

import tidemark as td
from tidemark import Pipeline, calendar, col, count, every, on_close, on_final, on_update
from tidemark.language.keyed import KeyedStream
from tidemark.language.stream import Stream

VISITS = {"n": count(), "euros": td.sum("euros")}
EARLY = on_close(early=every(rows=3))


class Spread:
    """The difference of the greatest and the least value, written in Python."""

    def init(self) -> list[int]:
        return []

    def add(self, state: list[int], row: dict[str, Any], /) -> list[int]:
        return self.merge(state, [] if row["v"] is None else [row["v"]])

    def merge(self, state: list[int], other: list[int], /) -> list[int]:
        values = state + other
        return [min(values), max(values)] if values else []

    def result(self, state: list[int], /) -> int | None:
        return state[-1] - state[0] if state else None


def longest_rise(rows: pl.DataFrame) -> list[int]:
    """Return the values between which the greatest rise was, by event time."""
    values = rows["v"].drop_nulls().to_list()
    pairs = pairwise(values)
    return list(max(pairs, key=lambda pair: pair[1] - pair[0], default=()))


def build(name: str) -> Pipeline:
    """Return the pipeline under a name of its own, so that tests share a broker."""
    pipeline = Pipeline(name, partitions=2)
    visits = _visits(pipeline, name)
    people = visits.key_by("who")
    for add in (_by_time, _sessions, _by_arrival, _by_clock, _values):
        add(people)
    return pipeline


def _visits(pipeline: Pipeline, name: str) -> Stream:
    return pipeline.source(
        f"{name}-moves",
        schema={
            "who": str, "at": int, "v": int, "x": float, "cents": int, "pause": int,
            "tags": list[str], "leaves": bool,
        },
        event_time="at",
        watermark=td.bounded("1s"),
        idle_after="1s",
        when_silent="wait",
    ).with_columns(euros=col("cents").cast(pl.Decimal(20, 2)) / 100)  # fmt: skip


def _by_time(people: KeyedStream) -> None:
    tens = td.tumbling("10s")
    lately: Callable[..., Any] = lambda window, **o: people.window(  # noqa: E731
        window, allowed_lateness="5s", **o
    )
    lately(tens).aggregate(**VISITS).to("tumbling")
    lately(td.hopping("10s", "4s")).aggregate(**VISITS).to("hopping")
    lately(td.sliding("3s")).aggregate(**VISITS).to("sliding")
    lately(td.sliding("3s"), trigger=on_final()).aggregate(n=count()).to("sliding-final")
    people.window(calendar("day", "Europe/Berlin"), allowed_lateness="2h").aggregate(**VISITS).to(
        "days"
    )
    lately(tens, trigger=on_final()).aggregate(n=count(), tags=td.collect("tags")).to("final")
    lately(tens, trigger=on_update()).aggregate(n=count()).to("updates")
    lately(tens, trigger=every(rows=4)).aggregate(n=count()).to("every-rows")
    lately(tens, trigger=every(event_time="2s")).aggregate(n=count()).to("every-time")
    lately(tens, trigger=EARLY).aggregate(n=count()).to("early")
    lately(tens, trigger=EARLY, accumulation="discarding").aggregate(n=count(), v=td.sum("v")).to(
        "discarding"
    )
    lately(td.tumbling("1m"), empty=True).aggregate(**VISITS).to("empty")
    lately(td.tumbling("1m"), empty=True, trigger=on_final()).aggregate(n=count()).to("empty-final")


def _sessions(people: KeyedStream) -> None:
    people.window(td.session("2s"), allowed_lateness="3s").aggregate(**VISITS).to("sessions")
    people.window(td.session("2s"), trigger=on_final()).aggregate(n=count()).to("sessions-final")
    people.window(td.session("2s"), lateness="after_merging").aggregate(n=count()).to(
        "sessions-merging"
    )
    people.window(td.session("pause", max_gap="30s"), allowed_lateness="3s").aggregate(
        n=count(), last=td.last("v")
    ).to("sessions-own-gap")
    people.window(td.session("2s"), trigger=EARLY, allowed_lateness="3s").aggregate(n=count()).to(
        "sessions-early"
    )
    people.window(td.session("2s"), trigger=on_update(), allowed_lateness="3s").aggregate(
        n=count()
    ).to("sessions-updates")
    people.window(td.session("2s"), accumulation="discarding", trigger=EARLY).aggregate(
        n=count(), v=td.sum("v")
    ).to("sessions-discarding")


def _by_arrival(people: KeyedStream) -> None:
    people.window(td.count_window(10, 4)).aggregate(**VISITS).to("counted")
    people.window(td.count_window(5, order="event_time")).aggregate(**VISITS).to("counted-in-time")
    people.window(td.count_window(7), trigger=EARLY).aggregate(n=count()).to("counted-early")
    people.window(td.delta("x", 40.5), trigger=EARLY, accumulation="discarding").aggregate(
        n=count(), v=td.sum("v")
    ).to("delta-discarding")
    people.window(td.punctuation(when=col("leaves"))).aggregate(
        n=count(), tags=td.collect("tags", order="arrival")
    ).to("punctuated")
    people.window(td.global_window(), trigger=every(rows=9)).aggregate(n=count(), v=td.sum("v")).to(
        "global"
    )
    people.window(td.global_window(), trigger=every(event_time="5s")).aggregate(n=count()).to(
        "global-time"
    )
    people.window(td.global_window(), trigger=every(rows=9), accumulation="discarding").aggregate(
        n=count(), v=td.sum("v")
    ).to("global-discarding")
    people.window(
        td.global_window(), trigger=every(event_time="5s"), accumulation="discarding"
    ).aggregate(n=count()).to("global-time-discarding")
    people.aggregate(n=count(), v=td.sum("v"), best=td.max("x")).to("rolling")


def _by_clock(people: KeyedStream) -> None:
    by_clock = td.processing_time
    people.window(by_clock(td.tumbling("500ms"))).aggregate(n=count()).to("clock-tumbling")
    people.window(by_clock(td.session("400ms"))).aggregate(n=count()).to("clock-sessions")
    people.window(
        td.tumbling("1m"), allowed_lateness="5s", trigger=every(processing_time="300ms")
    ).aggregate(n=count()).to("every-clock")


def _values(people: KeyedStream) -> None:
    minutes = people.window(td.tumbling("1m"), allowed_lateness="10s")
    minutes.aggregate(
        values=count("v"), least=td.min("euros"), most=td.max("x"), mean=td.mean("x"),
        variance=td.variance("euros"), stddev=td.stddev("x", sample=False), first=td.first("tags"),
        last=td.last("euros"), cheapest=td.min_by("tags", "euros"), dearest=td.max_by("v", "euros"),
    ).to("numbers")  # fmt: skip
    minutes.aggregate(
        exact=td.count_distinct("v"), about=td.count_distinct("v", approximate=True),
        median=td.median("x"), p90=td.quantile("x", 0.9),
        near_p90=td.quantile("x", 0.9, approximate=True), often=td.top_k("v", 3),
        dearest=td.top_k("v", 3, by="euros"),
    ).to("spread")  # fmt: skip
    minutes.aggregate(seen=td.collect("v", order="arrival")).to("arrivals")
    minutes.aggregate(
        spread=td.custom(Spread(), "v", int), rise=td.apply_frame(longest_rise, "v", list[int])
    ).to("python")
    minutes.aggregate(
        n=count(), euros=td.sum("euros"), tags=td.collect("tags"), often=td.top_k("euros", 2)
    ).to("avro", format="avro")


pipeline = build(os.environ.get("TEST_PIPELINE", "kinds"))
