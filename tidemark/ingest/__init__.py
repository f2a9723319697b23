"""Ingest without Kafka: raw records become rows with event time, rows become segments.

May import: plan, serde, core.
Start with: ingest.py; segment_builder.py puts rows into segments by log partition.
"""
