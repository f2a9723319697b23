"""Stateless operators, expressions and keys: functions of one row, computed as columns.

May import: core.time.
Start with: stateless.py (the graph of one source), then row_operators.py and probe.py.
"""
