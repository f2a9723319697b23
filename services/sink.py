"""Sink: delivers results, late rows and dead letters to a database, a folder or other systems."""

from tidemark.commands.service import main

if __name__ == "__main__":
    main("sink")
