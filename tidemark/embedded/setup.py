"""Installs Java, jars and a formatted data folder, for the embedded broker and replays."""

import sys

from tidemark.embedded.broker import formatted_folder
from tidemark.embedded.java import install_when_missing
from tidemark.embedded.spark_jars import kafka_source_jars
from tidemark.errors import ConfigurationError


def main() -> None:
    """Install all of it; an error is one line and exit status 2."""
    try:
        install_when_missing()
        formatted_folder()
        kafka_source_jars()
    except ConfigurationError as error:
        sys.stderr.write(f"setup: {error}\n")
        sys.exit(2)


if __name__ == "__main__":
    main()
