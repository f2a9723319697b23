"""Deletes the topics of each test, so that the broker of a process stays small.

An idle broker with 1,600 partitions takes a sixth of a core, and each list of topics takes longer.
A process of tests would make several thousand partitions.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient

from tidemark.runtime.client.topics import partition_counts


@contextmanager
def topics_deleted(request: pytest.FixtureRequest) -> Iterator[None]:
    """Delete the topics that a test makes on the broker of the process.

    The topics of fixtures with a wider scope stay, because pytest sets these fixtures up before.
    """
    if "broker" not in request.fixturenames:
        yield
        return
    admin = AdminClient({"bootstrap.servers": request.getfixturevalue("broker")})
    before = partition_counts(admin)
    yield
    made = [name for name in partition_counts(admin) if name not in before and name[:2] != "__"]
    if made:
        for future in admin.delete_topics(made).values():
            try:
                future.result()
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise  # else the test has deleted it, and the broker did so after our question
