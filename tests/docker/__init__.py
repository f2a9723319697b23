"""Tests that need a Docker engine: docker-compose.yml, PostgreSQL, and pipelines in containers."""
