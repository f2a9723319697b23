"""What Spark reads: logs, archives and raw topics as DataFrames, with fixed ranges.

May import: runtime and everything below.
Start with: ranges.py and source.py; reingest.py makes a log of raw topics again.
"""
