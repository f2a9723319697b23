"""Nexmark: queries over an auction site, each result row checked against SQL over all events.

python -m bench.nexmark [--n 30000] [--seed 1] [q5 q7 ...]
Start with: queries.py.
"""
