"""Stateless operators and expressions: functions of one row, computed as columns; keys of rows.

May import: core.time.
Start with: stateless.py (the graph of one source), then row_operators.py and probe.py.
"""
