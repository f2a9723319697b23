"""A test with the raw records beneath a pane, as Python source that pytest runs.

The test sends the records in the order of the log.  It lets all sources be silent until the window
closes, and expects the pane.  It is run before it is shown: a test that does not give the pane is
an error.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from tidemark.core.time.duration import duration_text
from tidemark.errors import ConfigurationError
from tidemark.plan.physical import Plan
from tidemark.runtime.letters.raw_records import RawRecord
from tidemark.testing import InProcess, Message

_MARGIN_MS = 1_000
_HEAD = '''"""The records beneath a pane of {operator}: {window}."""

from tidemark.testing import InProcess, Message

PANE = {pane!r}


def test_the_records_beneath_the_pane_give_it():
    with InProcess({pipeline!r}, raw_partitions={partitions}) as pipeline:
'''
_TAIL = """        panes = pipeline.panes({operator!r})
        assert PANE in [{{name: pane.get(name) for name in PANE}} for pane in panes]
"""


def as_test(
    pipeline: str,
    plan: Plan,
    operator: str,
    records: Sequence[RawRecord],
    pane: Mapping[str, Any],
    silence_ms: int,
) -> str:
    """Return the source of the test.

    Args:
        pipeline: its module, as for ``PIPELINE``.
        plan: of the pipeline.
        operator: name of the operator.
        records: those beneath the pane, in the order of the log.
        pane: the fields of the pane to expect.
        silence_ms: how long the sources are silent, so that the window closes.

    Raises:
        ConfigurationError: the records alone do not give the pane.
    """
    partitions = 1 + max(each.partition for each in records)
    longest_ms = max(silence_ms, *(each.idle_after_ms for each in plan.sources))
    silence = duration_text(-(-longest_ms // _MARGIN_MS) * _MARGIN_MS)
    idle = [
        (topic, number)
        for topic in dict.fromkeys([*plan.named_topics, *(each.topic for each in records)])
        if plan.source_of(topic).static is None
        for number in range(partitions)
    ]
    with InProcess(pipeline, raw_partitions=partitions) as scenario:
        for each in records:
            scenario.send(each.topic, _message(each), partition=each.partition)
        for topic, number in idle:
            scenario.idle(topic, silence, number)
        shown = [{name: found.get(name) for name in pane} for found in scenario.panes(operator)]
    if dict(pane) not in shown:
        raise ConfigurationError(
            f"--as-test: these records alone do not give the pane {dict(pane)}, but {shown}: it "
            "also depends on other records, on the wall clock, or on a table"
        )
    window = f"{pane['start']} to {pane['end']}"
    head = _HEAD.format(
        operator=operator, window=window, pane=dict(pane), pipeline=pipeline, partitions=partitions
    )
    sends = [
        f"        pipeline.send({each.topic!r}, {_text(each)}, partition={each.partition})\n"
        for each in records
    ]
    idles = [f"        pipeline.idle({topic!r}, {silence!r}, {n})\n" for topic, n in idle]
    return "".join([head, *sends, *idles, _TAIL.format(operator=operator)])


def _message(record: RawRecord) -> Message:
    return Message(
        record.value,
        record.key,
        record.headers or (),
        record.timestamp_ms if record.timestamp_ms >= 0 else None,
    )


def _text(record: RawRecord) -> str:
    """Return the call that makes the message, without arguments that say nothing."""
    message = _message(record)
    arguments = [repr(message.value)]
    arguments += [f"key={message.key!r}"] if message.key is not None else []
    arguments += [f"headers={message.headers!r}"] if message.headers else []
    if message.timestamp_ms is not None:
        arguments.append(f"timestamp_ms={message.timestamp_ms}")
    return f"Message({', '.join(arguments)})"
