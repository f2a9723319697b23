"""A new project of a user: ``tidemark init``.

May import: language and everything below.
Start with: new_project.py.
"""
