"""A whole pipeline in this process, without Kafka: ``tidemark try``.

May import: plan, ingest, serde, core.
Start with: run.py.
"""
