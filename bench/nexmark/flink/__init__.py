"""The queries in Flink SQL, run on the same topics.

Start with: queries.py.
"""
