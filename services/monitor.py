"""Monitor: reads the stats topic, serves a status page and JSON."""

from tidemark.commands.service import main

if __name__ == "__main__":
    main("monitor")
