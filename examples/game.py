"""The bubble game: pops per minute and play sessions, although the subway delivers some late."""

from tidemark import Pipeline, bounded, col, count, max, session, sum, tumbling

game = Pipeline("game")

pops = (
    game.source(
        "moves",
        schema={"player": str, "at": int, "score": int, "kind": str},
        event_time="at",
        watermark=bounded("2s"),
        idle_after="10s",
        max_future="1h",
    )
    .filter(col("kind") == "pop")
    .key_by("player")
)

pops.window(tumbling("1m"), allowed_lateness="10m").aggregate(pops=count(), score=sum("score")).to(
    "pops-per-minute"
)
pops.window(session("30s"), allowed_lateness="10m").aggregate(moves=count(), best=max("score")).to(
    "play-sessions"
)
