"""Patterns: reads logs, writes matches and timeouts of patterns."""

from tidemark.commands.service import main

if __name__ == "__main__":
    main("patterns")
