"""The monitor: keeps the latest stats of a pipeline's processes, raises alerts, shows a page.

May import: runtime and everything below.
Start with: app.py.
"""
