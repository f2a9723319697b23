"""Kafka clients: consumers, producers, topics, and the commit that is the guarantee.

May import: runtime.config and everything below runtime.
Start with: consumer.py (a member of a group) and commit.py (the guarantees).
"""
