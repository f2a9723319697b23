"""Clickstream: the visits of each user, with the pages and whether something was bought."""

from tidemark import Pipeline, bounded, col, collect, count, first, session

clicks = Pipeline("clicks")

pages = clicks.source(
    "page-views",
    schema={"user": str, "at": int, "page": str, "referrer": str},
    event_time="at",
    watermark=bounded("5s"),
    idle_after="30s",
)

pages.key_by("user").window(session("30m"), allowed_lateness="10m").aggregate(
    views=count(),
    came_from=first("referrer"),
    pages=collect("page", order="event_time"),
    orders=count(where=col("page") == "/thanks"),
).to("visits")
