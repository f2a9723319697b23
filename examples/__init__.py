"""Example pipelines; each module is one program, shared by all services."""
