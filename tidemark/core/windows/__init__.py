"""Windows as frozen values: kinds, calendars, triggers, and the pane.

May import: core.time, core.rows, core.aggregates.
Start with: window.py and pane.py; trigger.py says when panes are published.
"""
