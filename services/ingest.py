"""Ingest: raw topics in, logs of segments and dead letters out."""

from tidemark.commands.service import main

if __name__ == "__main__":
    main("ingest")
