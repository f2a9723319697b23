"""Kafka clients: consumers and their partitions, transactional producers, topics, commits.

May import: runtime.config and everything below runtime.
Start with: consumer.py (a member of a group) and commit.py (the guarantees).
"""
