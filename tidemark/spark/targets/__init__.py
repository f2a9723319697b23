"""Where results of a replay go: Parquet files, topics, messages to compare.

May import: spark.read, the modules of the spark folder itself, and everything below.
Start with: files.py.
"""
