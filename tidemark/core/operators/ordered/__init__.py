"""Rows in order of event time: distinct rows, and values of the rows before.

May import: core.operators and everything below.
Start with: operator.py; distinct.py and scan.py say what becomes of the rows.
"""
