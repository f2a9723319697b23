"""Patterns: rows of a key that follow each other, and rows that do not come.

May import: core.operators and everything below.
Start with: pattern.py; automaton.py decides what matches, operator.py when results are due.
"""
