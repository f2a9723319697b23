"""Keyed operators: rows and time in, rows of ports out, such as panes and late rows.

operator.py, ports.py and task.py are the contract.  A folder holds each family of windows.
May import: all of core.
Start with: operator.py (the contract), task.py (one step), aligned/operator.py (an example whose
``fold`` decides which rows are late).
"""
