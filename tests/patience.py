"""How long a test waits for what must come.

A wait ends when it has succeeded, so a long one costs nothing.  It covers a machine that is several
times slower than a developer's, or busy with other work.
"""

PATIENCE_S = 400.0
