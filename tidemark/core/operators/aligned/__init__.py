"""Aligned windows: tumbling, hopping and calendar windows, from time slices that windows share.

May import: core.operators and everything below.
Start with: operator.py, whose header explains the state; state.py holds it.
"""
