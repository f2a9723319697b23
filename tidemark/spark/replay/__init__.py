"""Replays from start to end: results, comparison with live ones, hand-over into live services.

May import: spark.read, spark.targets and everything below.
Start with: jobs.py; handover.py has the steps of a hand-over.
"""
