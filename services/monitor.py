"""Monitor: the stats topic in, a status page and JSON out."""

from tidemark.commands.service import main

if __name__ == "__main__":
    main("monitor")
