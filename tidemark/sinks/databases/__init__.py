"""Sinks with SQL behind them: PostgreSQL, SQLite and DuckDB.

May import: the modules of sinks, and everything below.
Start with: database.py (what they share), then sql.py, row_values.py and one of the three.
"""
