"""What a run makes of the shapes, against what should come of them."""

from typing import Any

from tests.support.shapes.records import HOUR, Shape


def panes(found: list[dict[str, Any]]) -> list[tuple[Any, int, Any]]:
    """Return the panes of the window at HOUR, as ``Shape.panes`` has them."""
    of_hour = [(each["k"], each["n"], each["v"]) for each in found if each["start"] == HOUR]
    return sorted(of_hour, key=lambda pane: str(pane[0]))


def published(expected: list[tuple[Any, int, Any]], found: list[dict[str, Any]]) -> bool:
    """Return whether the panes of the window at HOUR are these."""
    return panes(found) == expected


def wrong_letters(shape: Shape, letters: list[dict[str, Any]], topic: str) -> list[Any]:
    """Return what differs between the dead letters of a topic and those that should be there."""
    reasons = {
        each["offset"]: f"{each['stage']}: {each['reason']}"
        for each in letters
        if each["topic"] == topic
    }
    if reasons.keys() != shape.dead.keys():
        return [reasons, shape.dead]
    return [reasons[at] for at, words in shape.dead.items() if words not in reasons[at]]
