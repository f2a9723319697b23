"""Spark: replays of history, comparisons with live results, and whole pipelines on a cluster.

Import order: read < the modules of this folder < targets < replay < services.
May import: everything but commands, testing and monitor.
Start with: work.py (what tasks run), then replay/jobs.py.
"""
