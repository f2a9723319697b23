"""The objects that records are decoded to, whatever their format, and columns of them.  Pure.

May import: core, errors, and of serde what is not of a format.
Start with: record_type.py.
"""
