"""Cases of windowing semantics, run through the operators that the services run.

A case states what another system's own test asserts: inputs, parameters, results.  ``case`` reads
cases, ``translate`` makes a pipeline of a case's parameters, ``feed`` makes segments of its input,
``run`` collects the results, ``compare`` finds the differences, ``report`` prints them.  For cases
about time alone, ``clocks`` drives the watermark and the clock directly.
May import: language and everything below.
Start with: judge.py.
"""
