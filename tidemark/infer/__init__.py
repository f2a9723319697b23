"""From records to a pipeline module: ``tidemark infer``.

``observed`` counts the values at each path of the records, ``schema`` makes types of them, and
``event_time`` chooses the time.  ``module`` prints a module, and ``fit`` counts what it refuses.
May import: language and everything below.
Start with: module.py.
"""
