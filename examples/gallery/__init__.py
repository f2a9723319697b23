"""Pipelines of docs/gallery.md on real shapes of records; samples/ has the records."""
