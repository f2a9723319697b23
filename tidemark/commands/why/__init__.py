"""``tidemark why``: explains results, late rows, and what is missing.

May import: commands and everything below.
Start with: command.py.
"""
