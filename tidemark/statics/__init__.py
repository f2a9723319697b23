"""Static tables: from a file or a query to the versions of a table (docs/semantics.md).

``rows`` and ``sql`` read all rows with the ``columns`` of the schema, ``versions`` compares them
with the versions that there are.
May import: plan, serde, files, errors.
Start with: versions.py.
"""
