"""From bytes to frames and back: JSON, Avro, segments, changelog records, dead letters.  Pure.

May import: core.
Start with: segments.py (the log), json_records.py (raw records), json_results.py (panes).
"""
