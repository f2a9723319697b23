"""Rules as text: a pattern as JSON, with conditions as expressions in text.  Pure.

May import: core, serde.
Start with: document.py; condition_text.py reads one condition.
"""
