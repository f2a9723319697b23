"""Patterns in tests: with drawn steps (``steps``), and as rules (``rules``, ``rule_texts``).

``found`` compares their results with those of the oracle.
"""
