"""Replays from start to end: results, comparison with live results, hand-over to live services.

May import: spark.read, spark.targets and everything below.
Start with: jobs.py; handover.py describes the steps of a hand-over.
"""
