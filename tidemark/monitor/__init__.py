"""The monitor: the latest stats of a pipeline's processes, alerts, and a page that shows both.

May import: runtime and everything below.
Start with: app.py.
"""
