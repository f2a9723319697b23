"""Tests of services on a real Kafka, by what they test; a broker starts once for each process.

Start with ``support.stack``: the services of a pipeline as processes, and what they publish.
"""
