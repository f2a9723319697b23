"""Fire: a high temperature and then smoke in one room, and sensors that fall silent."""

from tidemark import Pipeline, absence, bounded, col, count, lit, max, sequence, step

fire = Pipeline("fire")

readings = fire.source(
    "readings",
    schema={"room": str, "kind": str, "at": int, "celsius": float, "battery": int},
    event_time="at",
    watermark=bounded("3s"),
    idle_after="10s",
).key_by("room")

hot = step((col("kind") == "temperature") & (col("celsius") > 80)).one_or_more()
smoke = step(col("kind") == "smoke")

alarms = readings.match(sequence(hot=hot, smoke=smoke).within("10m"), skip="past_last").select(
    hot_at="hot.at", smoke_at="smoke.at", readings=count("hot"), celsius=max("hot.celsius")
)
alarms.to("fires")
alarms.timeouts.filter(col("readings") > 2).select("room", "hot_at", "readings", "celsius").to(
    "hot-without-smoke"
)

readings.match(absence(of=lit(True), for_="5m")).select(last_at="of.at", battery="of.battery").to(
    "silent-sensors"
)
