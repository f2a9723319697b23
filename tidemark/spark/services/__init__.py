"""The services of a pipeline on Spark, in an endless series of micro-batches.

May import: all of spark and everything below.
Start with: driver.py.
"""
