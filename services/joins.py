"""Joins: reads logs, writes the rows of joins."""

from tidemark.commands.service import main

if __name__ == "__main__":
    main("joins")
