"""Bytes of topics to values and back: raw JSON, segments, results, changelog records."""
