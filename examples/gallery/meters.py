"""Meters that fall silent: which meter has sent nothing for fifteen minutes, and since when."""

from tidemark import Pipeline, absence, bounded, lit

meters = Pipeline("meters")

readings = meters.source(
    "meter-readings",
    schema={"meter": str, "time": str, "kwh": float, "battery": int},
    event_time="time",
    unit="iso8601",
    watermark=bounded("30s"),
    idle_after="1m",
)

readings.key_by("meter").match(absence(of=lit(True), for_="15m")).select(
    last_seen="of.time", battery="of.battery"
).to("silent-meters")
