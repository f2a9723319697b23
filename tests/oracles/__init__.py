"""Slow, obviously right implementations of what operators publish, in plain Python.

Properties draw event logs and compare an operator with its oracle.  An oracle keeps all rows and
recomputes every pane.  It uses of Tidemark only the data types of its input.
"""
