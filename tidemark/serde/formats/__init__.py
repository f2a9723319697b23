"""Values of raw records in formats other than JSON: bytes to Python values, or a reason.  Pure.

May import: core, serde.
Start with: value_decoder.py (the contract), avro_values.py.
"""
