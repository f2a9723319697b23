"""Joins with broadcast tables: rows meet the versions of all keys.

May import: core.operators.joins and everything below.
Start with: operator.py; matcher.py finds the pairs, ../version_spans.py says when versions answer.
"""
