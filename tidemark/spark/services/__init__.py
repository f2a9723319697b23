"""A pipeline's services on Spark, in micro-batches that never end.

May import: all of spark and everything below.
Start with: driver.py.
"""
