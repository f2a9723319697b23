"""Aggregates: rows become partials, partials merge, a merged partial becomes values.

One module per kind of function.  ``exact_sum`` keeps sums of floats exact until a pane is built.
May import: core.time, core.rows.
Start with: aggregate.py (the contract and the layout of partials), then basic.py.
"""
