"""Joins of two streams, and of a stream with a table, as users write them.

May import: the language, and what it may import.
Start with: streams.py; tables.py is the other kind.  sides.py checks what both have in common, and
joined_stream.py is the result.
"""
