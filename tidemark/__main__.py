"""``python -m tidemark``: the command line."""

from tidemark.commands.cli import main

main()
