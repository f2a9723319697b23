"""From the logical graph to the physical plan: topics, services, operators.  Frozen values only.

``logical`` is what the user wrote, ``compile`` makes ``physical`` of it, ``explain`` prints that.
May import: core.
Start with: physical.py; every service, Spark and the in-process runner read a ``Plan``.
"""
