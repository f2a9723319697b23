"""The ingest service: reads raw partitions, writes segments and dead letters.

May import: runtime.client, runtime.service and everything below.
Start with: task.py.
"""
