"""Tests pipelines step by step: in this process, on a broker, or in containers.

See docs/testing.md.
May import: runtime, embedded and everything below.
Start with: scenario.py.
"""

from tidemark.testing.in_process import InProcess
from tidemark.testing.on_broker import Launcher, OnBroker, Service
from tidemark.testing.scenario import Message, MismatchError, Record, Scenario

__all__ = [
    "InProcess",
    "Launcher",
    "Message",
    "MismatchError",
    "OnBroker",
    "Record",
    "Scenario",
    "Service",
]
