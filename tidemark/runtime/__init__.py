"""Services on Kafka: they feed the core, and commit what it computes.

client < service < backends < ingest, keyed, archive: each folder imports only those before it.
May import: plan, ingest, serde, core, language.load.
Start with: service/process.py (the loop of every service), then keyed/task.py.
"""
