"""Formats whose records are JSON in an envelope, for which a source has a format of its own."""

from collections.abc import Iterator, Sequence

from tidemark.infer.schema import Column

_CHANGE = {"op", "source"}
_CLOUD_EVENT = {"specversion", "id", "source", "type"}


def envelope_comments(columns: Sequence[Column]) -> Iterator[str]:
    """Yield a comment that names the format of an envelope which the columns have.

    Members: docs/formats.md, "Debezium" and "CloudEvents".
    """
    members = {each.member: each for each in columns}
    payload = members.get("payload")
    inside = {each.member for each in payload.type.members} if payload else set()
    if any(names >= _CHANGE and names & {"before", "after"} for names in (members.keys(), inside)):
        yield 'Changes of Debezium? format="debezium-json" reads the rows: docs/formats.md'
    elif members.keys() >= _CLOUD_EVENT:
        yield 'CloudEvents? format="cloudevents" also reads binary mode: docs/formats.md'
