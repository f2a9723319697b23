"""From records to a pipeline module: ``tidemark infer``.

``formats`` finds the format of a sample, ``observed`` counts the values at each path of its rows,
``schema`` makes types of them, ``inference`` chooses time and key.  ``module`` prints a module, and
``fit`` counts what it refuses.
May import: files, language and everything below.
Start with: inference.py.
"""
