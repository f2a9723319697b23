"""Bring what the embedded broker needs: Java, Kafka's jars, a formatted data folder."""

import sys

from tidemark.embedded.broker import formatted_folder
from tidemark.embedded.java import install_when_missing
from tidemark.errors import ConfigurationError


def main() -> None:
    """Do it; say in one line what is wrong."""
    try:
        install_when_missing()
        formatted_folder()
    except ConfigurationError as error:
        sys.stderr.write(f"setup: {error}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
