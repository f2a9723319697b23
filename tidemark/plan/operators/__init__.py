"""Which operators a plan has: for joins, stages, late rows, rows, and results that are replaced.

Each module returns operators of the physical plan, and refuses what they cannot do.
May import: plan and what it may import.
Start with: stages.py, the operators whose results feed other operators.
"""
