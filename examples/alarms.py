"""Alarms: rules that come from a topic say which readings of a room follow each other."""

from tidemark import Pipeline, bounded, col, count, max

alarms = Pipeline("alarms")

readings = alarms.source(
    "readings",
    schema={"room": str, "kind": str, "at": int, "celsius": float, "battery": int},
    event_time="at",
    watermark=bounded("3s"),
    idle_after="10s",
).key_by("room")

rules = (
    alarms.source(
        "rules",
        schema={"id": str, "at": int, "rule": str},
        event_time="at",
        watermark=bounded("3s"),
        idle_after="10s",
    )
    .key_by("id")
    .table(keep="3650d", deleted=col("rule") == "")
    .broadcast()
)

found = readings.match(rules, rule="rule", max_within="1h").select(
    since="first.at", until="last.at", hottest=max("hot.celsius"), readings=count()
)
found.to("alarms")
found.timeouts.to("nearly")
