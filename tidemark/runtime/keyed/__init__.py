"""The keyed services: segments in, panes out, state in changelogs, and how it is restored.

May import: runtime.client, runtime.service, runtime.backends and everything below.
Start with: task.py, then changelog.py and restore.py.
"""
