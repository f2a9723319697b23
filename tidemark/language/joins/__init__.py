"""Joins of two streams, as users write them.

May import: the language, and what it may import.
Start with: streams.py.  sides.py checks the two sides, and joined_stream.py is the result.
"""
