"""Runs a real Kafka broker and all services on one machine, without Docker.

May import: runtime and everything below.
Start with: stack.py (``make up``) and broker.py.
"""
