"""Keyed operators: rows and time in, panes and late rows out, in one verb.

A folder for each family of windows; what families share lies beside ``operator.py``.
May import: all of core.
Start with: operator.py (the contract), then aligned/operator.py (tumbling, hopping, calendar).
"""
