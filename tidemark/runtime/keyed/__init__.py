"""The keyed services: they process segments, publish panes, and keep state in changelogs.

May import: runtime.client, runtime.service, runtime.backends and everything below.
Start with: task.py, then changelog.py and restore.py.
"""
