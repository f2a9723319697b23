"""State backends: where keyed state lies on this machine.  Kafka alone is where it is kept.

May import: runtime.client, core.state and everything below.
Start with: backend.py.
"""
