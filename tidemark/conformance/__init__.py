"""Shared cases of windowing semantics, run through the operators that the services run.

A case states what a peer's own test asserts: inputs, parameters, results.  ``case`` reads them,
``translate`` makes a pipeline of a case's parameters, ``feed`` makes segments of its input, ``run``
collects what came out, ``compare`` tells what is missing or too much, ``report`` prints it.
Where a case is about time alone, ``clocks`` drives the watermark and the clock themselves.
"""
