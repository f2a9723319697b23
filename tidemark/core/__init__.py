"""The kernel: pure functions over columns.  No clock, no I/O, no randomness, no logging.

time < rows < aggregates < state < windows < operators: each folder imports only those before it.
May import: numpy, polars, pyarrow, tidemark.errors; tests/core/test_purity.py checks it.
Start with: operators/operator.py (the contract), then operators/aligned/operator.py.
"""
