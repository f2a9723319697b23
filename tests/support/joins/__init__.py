"""Joins of two streams in tests: drawn over logs (``stream``), or fed by hand (``by_hand``)."""
