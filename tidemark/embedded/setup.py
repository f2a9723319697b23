"""Bring what the embedded broker and replays need: Java, jars, a formatted data folder."""

import sys

from tidemark.embedded.broker import formatted_folder
from tidemark.embedded.java import install_when_missing
from tidemark.embedded.spark_jars import kafka_source_jars
from tidemark.errors import ConfigurationError


def main() -> None:
    """Do it; say in one line what is wrong."""
    try:
        install_when_missing()
        formatted_folder()
        kafka_source_jars()
    except ConfigurationError as error:
        sys.stderr.write(f"setup: {error}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
