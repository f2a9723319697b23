"""From a file to the records of a raw topic: for ``tidemark try`` and ``tidemark infer``.

``content`` opens and decompresses, the other modules split the bytes by the format of the source.
May import: serde, errors.
Start with: records.py.
"""
