"""Which operators a plan has: joins, patterns, stages, late rows, rows, replacing results.

Each module returns operators of the physical plan, and refuses what they cannot do.
May import: plan and what it may import.
Start with: stages.py, the operators whose results feed other operators.
"""
