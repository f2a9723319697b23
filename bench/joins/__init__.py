"""Joins: their kernel (for ``bench.operators``), and as services on a broker beside Flink SQL."""
