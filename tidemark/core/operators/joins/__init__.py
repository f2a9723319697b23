"""Joins: rows of two inputs that have the same key and are close in event time, and tables.

May import: core.operators and everything below.
Start with: stream_join.py; side_rows.py is the state of one side.  table_join.py joins rows with a
table; versions.py is the state of a table.  sessions/ joins rows in sessions.
"""
