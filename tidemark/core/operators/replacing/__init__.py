"""Results that replace each other: how a stage hands them on, and windows of them.

May import: core.operators with its other folders, and everything below.
Start with: slot_windows.py; slots.py is its state, withdrawing.py is the other side.
"""
