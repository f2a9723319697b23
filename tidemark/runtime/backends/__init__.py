"""State backends: where keyed state is on this machine.  Only Kafka keeps it durably.

May import: runtime.client, core.state and everything below.
Start with: backend.py.
"""
