"""The pattern that runs on a broker: a high temperature, then smoke in ten minutes."""

from collections.abc import Mapping

import numpy as np
import polars as pl

from bench.nexmark.arrival import partition_of, with_positions
from bench.nexmark.flink.sql import FlinkQuery
from bench.nexmark.query import RESULTS, Query, Streams
from tidemark import col, sequence, step

READINGS = "readings"
HOT_SHARE, SMOKE_SHARE = 0.02, 0.01
ROWS_PER_S = 10_000
DISORDER_MS = 2_000
HOT = 80
WITHIN_S = 600
_START_MS = 1_700_000_000_000
_SCHEMAS: Mapping[str, Mapping[str, type]] = {
    READINGS: {"sensor": int, "kind": str, "celsius": float},
}


def readings(
    total: int, sensors: int, partitions: int, seed: int, *, is_opened: bool
) -> Mapping[str, pl.DataFrame]:
    """Return the readings, out of order but never late, in order of arrival.

    ``is_opened``: whether each sensor has a high temperature first, beyond ``total``.
    """
    draw = np.random.default_rng(seed)
    first = sensors if is_opened else 0
    now_ms = _START_MS + np.arange(first + total) * 1_000 // ROWS_PER_S
    sensor = np.append(np.arange(first), draw.integers(0, sensors, total))
    chance = np.append(np.full(first, SMOKE_SHARE), draw.random(total))
    is_smoke, is_hot = chance < SMOKE_SHARE, chance < SMOKE_SHARE + HOT_SHARE
    made = pl.DataFrame({"sensor": sensor, "is_smoke": is_smoke}).select(
        "sensor",
        pl.when("is_smoke").then(pl.lit("smoke")).otherwise(pl.lit("temperature")).alias("kind"),
        pl.Series("celsius", np.where(is_hot & ~is_smoke, HOT + 1 + draw.random(sensor.size), 20)),
        pl.Series("at", now_ms - draw.integers(0, DISORDER_MS, now_ms.size)),
        partition_of(sensor, partitions),
    )
    return {READINGS: with_positions(made)}


def _fire(streams: Streams) -> None:
    pattern = sequence(
        hot=step(col("celsius") > HOT),
        smoke=step(col("kind") == "smoke"),
    ).within(f"{WITHIN_S}s")
    matches = streams[READINGS].key_by("sensor").match(pattern)
    matches.select(hot_at="hot.at", celsius="hot.celsius", smoke_at="smoke.at").to(RESULTS)


PATTERNS: Mapping[str, Query] = {
    "fire": Query(
        "a high temperature, then smoke in ten minutes, by sensor",
        (READINGS,),
        _fire,
        # A smoke ends all that is open before it, so the hot rows since the smoke before decide.
        f"""with r as (
  select *, row_number() over of_key as i,
    count(*) filter (kind = 'smoke') over before as run
  from readings where ts >= w and (celsius > {HOT} or kind = 'smoke')
  window of_key as (partition by sensor order by ts, pos),
    before as (of_key rows between unbounded preceding and 1 preceding)
)
select s.sensor, arg_min(h.ts, h.i), arg_min(h.celsius, h.i), s.ts
from r s join r h on s.sensor = h.sensor and s.run = h.run and h.i < s.i
  and s.ts < h.ts + {WITHIN_S * 1_000}
where s.kind = 'smoke' and h.celsius > {HOT} group by s.sensor, s.i, s.ts""",
        "select sensor, hot_at, celsius, smoke_at from results",
        _SCHEMAS,
    ),
}

FLINK: Mapping[str, FlinkQuery] = {
    "fire": FlinkQuery(
        "sensor BIGINT, hot_at BIGINT, celsius DOUBLE, smoke_at BIGINT",
        "SELECT * FROM "
        f"(SELECT * FROM readings WHERE celsius > {HOT} OR kind = 'smoke') "
        "MATCH_RECOGNIZE (PARTITION BY sensor ORDER BY ts "
        "MEASURES H.`at` AS hot_at, H.celsius AS celsius, S.`at` AS smoke_at "
        "ONE ROW PER MATCH AFTER MATCH SKIP PAST LAST ROW "
        f"PATTERN (H N* S) WITHIN INTERVAL '{WITHIN_S // 60}' MINUTE "
        f"DEFINE H AS celsius > {HOT}, N AS kind <> 'smoke', S AS kind = 'smoke')",
        PATTERNS["fire"].results,
    ),
}
