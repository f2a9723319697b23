"""Keyed operators: they take rows and time, and publish panes, rows and late rows.

Each family of windows has a folder.  Files that families share are beside ``operator.py``.
May import: all of core.
Start with: operator.py (the contract), then aligned/operator.py (tumbling, hopping, calendar).
"""
