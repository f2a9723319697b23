"""Example pipelines; each module is one pipeline, which all its services load."""
