"""Patterns: their kernel (for ``bench.operators``), and services on a broker beside Flink SQL."""
