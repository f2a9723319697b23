"""The ingest service: raw partitions in, segments and dead letters out.

May import: runtime.client, runtime.service and everything below.
Start with: task.py.
"""
