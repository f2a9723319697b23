"""Windowing: logs in, panes of all windows but sessions out."""

from tidemark.commands.service import main

if __name__ == "__main__":
    main("windowing")
