"""Tests of `tidemark dev` without a broker."""
