"""Patterns as users write them: steps in order, and the matches of keyed streams.

May import: language, plan, core and errors.
Start with: sequence.py; matches.py has what ``match`` returns.
"""
