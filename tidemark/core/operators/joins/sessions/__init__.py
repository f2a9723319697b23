"""Joins in sessions: rows of both sides make the sessions of a key.

May import: core.operators.joins and everything below.
Start with: operator.py.
"""
