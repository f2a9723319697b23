"""Ingest: reads raw topics, writes logs of segments and dead letters."""

from tidemark.commands.service import main

if __name__ == "__main__":
    main("ingest")
