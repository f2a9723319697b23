"""Operators of every kind of window, built from settings that properties draw.

Each module has ``specs()``, which draws what the oracle of that kind takes, and ``operator(spec,
topics)``, which builds the operator that must agree with the oracle.
``families`` has all of them, and operators without an oracle here, for the operator contract.
"""
