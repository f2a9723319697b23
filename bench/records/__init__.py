"""The CPU time of reading records of several shapes, from bytes to rows of the log."""
