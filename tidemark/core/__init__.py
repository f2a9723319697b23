"""The kernel: pure functions over columns; no clock, no I/O, no randomness, no logging."""
