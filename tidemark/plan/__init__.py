"""From the logical graph to the physical plan: topics, services, operators.  Frozen values only.

``compile`` turns ``logical``, the user's graph, into ``physical``; ``explain`` prints both.
May import: core.
Start with: physical.py; every service, Spark and the in-process runner read a ``Plan``.
"""
