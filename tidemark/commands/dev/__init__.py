"""``tidemark dev``: a pipeline on a broker of its own, computed again after each change.

May import: everything.
Start with: session.py.
"""
