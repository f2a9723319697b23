"""A whole pipeline in this process, without Kafka: ``tidemark try``.

May import: files, plan, ingest, serde, core.
Start with: run.py.
"""
