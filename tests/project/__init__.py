"""Tests of new projects: what ``tidemark init`` writes runs as it is."""
