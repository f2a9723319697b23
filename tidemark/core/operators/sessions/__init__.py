"""Session windows: bursts of events that merge.

May import: core.operators and everything below.
Start with: operator.py; fold.py decides which rows and stored sessions become one session.
"""
