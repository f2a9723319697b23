"""Users in a static table, and clicks that are joined with them, for the pipeline ``named``."""

import json
from collections.abc import Mapping
from pathlib import Path

from tests.kafka.support.stack import Stack

HOUR_MS = 3_600_000
Users = Mapping[object, str]


def write(path: Path, users: Users) -> None:
    """Replace the file at once, so that no load reads a part of it."""
    lines = ["user,name", *(f"{user},{name}" for user, name in users.items())]
    new = path.with_suffix(".new")
    new.write_text("\n".join(lines) + "\n", "utf-8")
    new.replace(path)


def click(stack: Stack, *clicks: tuple[int, int]) -> None:
    values = [json.dumps({"user": user, "at": at_ms}).encode() for user, at_ms in clicks]
    stack.produce([(0, None, value) for value in values], f"{stack.name}-clicks")


def answers(stack: Stack) -> list[tuple[int, str | None]]:
    """Return user and name of each result, in the order of the clicks."""
    rows = sorted(stack.results("named"), key=lambda row: row["at"])
    return [(row["user"], row["name"]) for row in rows]


def versions(stack: Stack) -> list[tuple[int, str, str, str]]:
    """Return time, tombstone, user and name of each version of the table."""
    records = stack.committed(f"{stack.name}.users.static")
    values = [value or b"" for _, value in records]
    if any(value.startswith(b"{") for value in values):
        found = map(json.loads, values)
        return [(v["@valid_from"], str(v["@deleted"]), str(v["user"]), v["name"]) for v in found]
    rows = [value.decode().split("\n")[1].split(",") for value in values]
    return [(int(at), deleted, user, name) for at, deleted, _, user, name in rows]
