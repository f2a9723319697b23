"""Replay of a pipeline's logs on Spark: the operators of the services, in Spark's tasks."""
