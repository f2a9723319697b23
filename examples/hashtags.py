"""Hashtags: the count of each per minute, and the ten most frequent of each language."""

from tidemark import Pipeline, bounded, col, count, count_distinct, top_k, tumbling

hashtags = Pipeline("hashtags")

tags = (
    hashtags.source(
        "posts",
        schema={"user": str, "language": str, "at": int, "text": str},
        event_time="at",
        unit="s",
        watermark=bounded("10s"),
    )
    .with_columns(tag=col("text").str.to_lowercase().str.extract_all(r"#\w+"))
    .explode("tag")
    .select("user", "language", "tag")
)

tags.key_by("tag").window(tumbling("1m"), allowed_lateness="5m").aggregate(
    posts=count(), users=count_distinct("user")
).to("tags-per-minute")
tags.key_by("language").window(tumbling("1m"), allowed_lateness="5m").aggregate(
    top=top_k("tag", 10)
).to("top-tags")
