"""A source to make mistakes with, and how one is expected."""

import re

import pytest

from tidemark import Pipeline, PipelineError, bounded

SCHEMA = {"player": str, "at": int, "score": int, "speed": float, "vip": bool, "tags": list[str]}


def moves(pipeline=None, topic="moves", **options):
    settings = {
        "schema": SCHEMA,
        "event_time": "at",
        "watermark": bounded("2s"),
        **options,
    }
    return (pipeline or Pipeline("game")).source(topic, **settings)


def refused(message):
    """Expect a PipelineError that holds this text."""
    return pytest.raises(PipelineError, match=re.escape(message))
