"""Keyed operators: they take rows and time, and publish panes, rows and late rows.

operator.py, ports.py and task.py are the contract.  Each family of windows has a folder.
May import: all of core.
Start with: operator.py (the contract), task.py (one step), aligned/operator.py (an example whose
``fold`` decides which rows are late).
"""
