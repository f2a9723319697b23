"""The monitor: keeps the latest stats of a pipeline and its past, raises alerts, shows a dashboard.

May import: why, runtime and everything below.
Start with: app.py.
"""
