"""Changes that are deployed to a running pipeline, with kills between, judged by a reference.

Each step changes the program, deploys it, and runs the command that a refusal advises.  Afterwards
topic and table must say what the reference computes from all raw records with the present program.
The reference is plain Python and uses nothing of the product.  tests/kafka/keyed/test_changes.py
tests the operators of one service against their logs.
"""
