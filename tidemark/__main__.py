"""``python -m tidemark``: the command line."""

from tidemark.cli import main

main()
