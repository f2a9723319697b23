"""Windowing: reads logs, writes panes of all windows except sessions."""

from tidemark.commands.service import main

if __name__ == "__main__":
    main("windowing")
