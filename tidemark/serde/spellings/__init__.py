"""Values with several spellings: lenient numbers, texts and Booleans; dates and instants.  Pure.

May import: core, errors.
Start with: lenient.py; time_values.py reads times by the rules of event time.
"""
