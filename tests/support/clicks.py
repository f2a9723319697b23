"""Clicks of users: a source, windows of a minute and some records."""

import json

from tidemark import bounded, tumbling

MINUTE = tumbling("1m")


def clicks(pipeline):
    schema = {"user": str, "at": int, "group": str}
    return pipeline.source("clicks", schema=schema, event_time="at", watermark=bounded("5s"))


def numbered_clicks(pipeline):
    """Return clicks of users that are numbers, in the order of time."""
    schema = {"user": int, "at": int}
    return pipeline.source("clicks", schema=schema, event_time="at", watermark=bounded("0s"))


def click(user, second, group="g"):
    return json.dumps({"user": user, "at": second * 1000, "group": group}).encode()


LINES = [
    *(click("ann", second) for second in (1, 2, 59)),
    *(click("bob", second) for second in (3, 4)),
    click("eve", 5),
    *(click("ann", second) for second in (61, 62)),
    click("ann", 3700),
]
