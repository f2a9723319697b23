"""How many examples a property draws, where each costs much or many properties share a ground."""

from hypothesis import settings


def fewer(by: int) -> settings:
    """Return settings for a property that draws the usual number of examples divided by ``by``."""
    return settings(max_examples=max(1, settings().max_examples // by))
