"""What Spark reads: logs, archives and raw topics as DataFrames, in fixed offset ranges.

May import: runtime and everything below.
Start with: ranges.py and source.py; reingest.py builds the segments of a log again from raw topics.
"""
