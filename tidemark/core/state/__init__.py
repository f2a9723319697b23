"""The columnar storage engine of keyed state: immutable blocks, lines found by key, due times.

README.md in this folder explains the layout.
May import: core.time, core.rows, core.aggregates.
Start with: blocks.py, then line_table.py.
"""
