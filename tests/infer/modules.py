"""Modules for records of a test, and runs of them."""

import json
from datetime import UTC, datetime, timedelta

from tidemark.infer.fit import fitted_module, plan_of
from tidemark.infer.formats import format_of_records
from tidemark.infer.sample import Sample, SampleRecord
from tidemark.local.run import LocalRun

T = 1767323040000


def module_of(values):
    """Return the module for records of a topic."""
    records = list(map(SampleRecord, values))
    sample = Sample(format_of_records(records, "records"), records)
    return fitted_module(sample, "records", "records")


def of(*records):
    """Return the module for records in JSON."""
    return module_of([json.dumps(record).encode() for record in records])


def run(text, values):
    """Return a run of a module over records of its topic."""
    run = LocalRun(plan_of(text))
    list(run.run({run.plan.sources[0].topics[0]: values}))
    return run


def half_hours(count):
    """Return times that are half an hour apart."""
    begin = datetime(2026, 3, 1, 12, tzinfo=UTC)
    return [begin + timedelta(minutes=30 * n) for n in range(count)]
