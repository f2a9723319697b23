"""Tests of pipelines, step by step: in this process, or on a broker with real services.

See docs/testing.md.
"""

from tidemark.testing.in_process import InProcess
from tidemark.testing.on_broker import Launcher, OnBroker, Service
from tidemark.testing.scenario import MismatchError, Record, Scenario

__all__ = ["InProcess", "Launcher", "MismatchError", "OnBroker", "Record", "Scenario", "Service"]
