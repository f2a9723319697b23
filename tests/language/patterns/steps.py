"""Steps and a pattern that tests of the language share, on the rows of ``moves``."""

from tidemark import col, sequence, step

FAST, SLOW = step(col("speed") > 3), step(col("speed") < 1)
TWO = sequence(fast=FAST, slow=SLOW).within("10m")
