"""Tests of Spark beside live services: replays, hand-overs, and services in micro-batches."""
