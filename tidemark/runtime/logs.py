"""Log lines of a service: one line each, to stderr."""

import logging
import sys


def set_up(level: str) -> None:
    """Log to stderr from ``level`` on; the Kafka client speaks only of what is wrong."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        logging.Formatter("%(asctime)s.%(msecs)03d %(levelname)-7s %(message)s", "%H:%M:%S")
    )
    logging.basicConfig(level=level, handlers=[handler])
    logging.getLogger("kafka").setLevel(max(logging.WARNING, logging.getLevelName(level)))
