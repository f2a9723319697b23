"""The judge of a run: everything that differs from what must be there."""
