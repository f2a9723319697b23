"""Replays of a log beside Spark's own windows over the raw records."""
