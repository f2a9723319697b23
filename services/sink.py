"""Sink: results, late rows and dead letters to a database or folder."""

from tidemark.commands.service import main

if __name__ == "__main__":
    main("sink")
