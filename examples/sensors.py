"""Sensors that drift and fall silent: temperatures in hopping windows, and times in operation."""

from tidemark import Pipeline, bounded, col, count, hopping, last, max, mean, min, session

sensors = Pipeline("sensors")

readings = (
    sensors.source(
        "readings",
        schema={"sensor": str, "time": str, "celsius": float},
        event_time="time",
        unit="iso8601",
        watermark=bounded("5s"),
        idle_after="30s",
        min_time="2020-01-01T00:00:00Z",
    )
    .filter(col("celsius").is_between(-90, 60))
    .key_by("sensor")
)

readings.window(hopping("1m", "10s"), allowed_lateness="2m").aggregate(
    readings=count(),
    mean=mean("celsius"),
    coldest=min("celsius"),
    hottest=max("celsius"),
).to("temperature")
readings.window(session("90s"), allowed_lateness="2m").aggregate(
    readings=count(), last_seen=last("time")
).to("in-operation")
