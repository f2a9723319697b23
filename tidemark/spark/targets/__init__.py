"""Where results of a replay go: Parquet files, topics, messages to compare.

May import: spark.read, the units of work and everything below.
Start with: files.py.
"""
