"""Event time: segments of the log, watermarks, the clock of an operator, durations, timestamps.

May import: core.columns.
Start with: segment.py (the log's unit), clock.py (when panes are due), row_watermarks.py (the
watermark W of each row).
"""
