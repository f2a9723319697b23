"""Avro contracts of Tidemark's topics; public topics are JSON unless Avro is asked for.

May import: nothing; these are data files.
Start with: segment.avsc.
"""
