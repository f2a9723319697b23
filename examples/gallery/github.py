"""GitHub events: which repositories get stars in an hour, and from how many people."""

from tidemark import Pipeline, bounded, col, count, count_distinct, field, tumbling

github = Pipeline("github")

stars = github.source(
    "github-events",
    schema={
        "type": str,
        "repo": field("repo.name", str),
        "user": field("actor.login", str),
        "created_at": str,
    },
    event_time="created_at",
    unit="iso8601",
    watermark=bounded("5m"),
).filter(col("type") == "WatchEvent")

stars.key_by("repo").window(tumbling("1h")).aggregate(
    stars=count(), people=count_distinct("user")
).to("stars-per-hour")
