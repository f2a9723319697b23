"""The objects that records of all formats are decoded to, and columns of them.  Pure.

May import: core, errors, and of serde what is not of a format.
Start with: record_type.py.
"""
