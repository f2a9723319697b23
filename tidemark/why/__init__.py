"""Answers of ``tidemark why``: where a record went, what is beneath a pane, what late rows missed.

See docs/why.md.  Nothing here writes to Kafka, and no service waits for it.
May import: testing and everything below.
Start with: key_replay.py.
"""
