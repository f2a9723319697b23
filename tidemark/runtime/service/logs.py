"""Log lines of a service: one line each, to stderr."""

import logging
import sys


def set_up(level: str) -> None:
    """Log to stderr from ``level`` on; clients speak only of what is wrong."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        logging.Formatter("%(asctime)s.%(msecs)03d %(levelname)-7s %(message)s", "%H:%M:%S")
    )
    logging.basicConfig(level=level, handlers=[handler])
    # httpx would tell of each request, with the password that is part of its address.
    for client in ("kafka", "httpx", "httpx2"):
        logging.getLogger(client).setLevel(max(logging.WARNING, logging.getLevelName(level)))
