"""A whole pipeline in this process, without Kafka: ``tidemark try`` and ``Pipeline.run``.

May import: runtime, language, files, plan, ingest, serde, core.
Start with: run.py; pipeline.py is the ``Pipeline`` that users write.
"""
