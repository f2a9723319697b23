"""Logging of a service: one line per event, to stderr."""

import logging
import sys


def set_up(level: str) -> None:
    """Log to stderr from ``level`` on; libraries log only warnings and errors."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        logging.Formatter("%(asctime)s.%(msecs)03d %(levelname)-7s %(message)s", "%H:%M:%S")
    )
    logging.basicConfig(level=level, handlers=[handler])
    # httpx would log each request with its address, which may hold a password.
    for client in ("kafka", "httpx", "httpx2"):
        logging.getLogger(client).setLevel(max(logging.WARNING, logging.getLevelName(level)))
