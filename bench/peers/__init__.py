"""Tidemark as one of the peers of a shared harness, and the broker that all peers use."""
