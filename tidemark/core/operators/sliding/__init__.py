"""Sliding windows: a window ends with every row.

May import: core.operators and everything below.
Start with: operator.py; fold.py finds the windows, lines.py merges their lines.
"""
