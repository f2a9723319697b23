"""From bytes to frames and back: JSON, Avro, segments, changelog records, dead letters.  Pure.

May import: core.
Start with: segments.py (the log), parsed_batch.py (raw records), json_results.py (panes).
"""
