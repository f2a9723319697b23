"""Rules: patterns that come as rows of a broadcast table, and change while rows come.

May import: core.operators.joins, core.operators.patterns and everything below.
Start with: operator.py; periods.py says from when until when a rule counts.
"""
