"""Window specifications as frozen values, triggers, and the columns of panes.

May import: core.time, core.rows, core.aggregates, core.state.
Start with: window.py and pane.py; trigger.py says when panes are published.
"""
