"""Writes the raw records of a run, spread over its time, and transactions that come to nothing."""

from collections.abc import Sequence

from confluent_kafka import KafkaException, Producer

from tests.chaos.records import Record
from tests.patience import PATIENCE_S

JUNK = b'{"who":"aborted","team":"aborted","at":1700000000000}'
_WAIT_S = 3.0


class Feeder:
    """Gives ``records`` away in equal parts."""

    def __init__(self, broker: str, name: str, records: Sequence[Record], parts: int) -> None:
        """``name``: of the pipeline, which leads the names of its topics."""
        self._broker, self._name = broker, name
        size = -(-len(records) // parts)
        self._parts = [records[begin : begin + size] for begin in range(0, len(records), size)]
        self._producer = self._new({"enable.idempotence": True})  # or parts that are sent again
        self._aborted = 0

    @property
    def parts(self) -> int:
        """Count the parts that are left."""
        return len(self._parts)

    def feed(self) -> None:
        """Write the next part."""
        for record in self._parts.pop(0):
            topic = f"{self._name}-{record.topic}"
            self._producer.produce(topic, record.value, partition=record.partition)
        self._producer.poll(0)

    def abort(self, topic: str, partition: int) -> None:
        """Write records in a transaction that is aborted, at once or by its timeout."""
        self._aborted += 1
        producer = self._new(
            {
                "transactional.id": f"{self._name}.feeder.{self._aborted}",
                "transaction.timeout.ms": 5_000,
            }
        )
        try:
            producer.init_transactions(_WAIT_S)
            producer.begin_transaction()
            for _ in range(5):
                producer.produce(f"{self._name}-{topic}", JUNK, partition=partition)
            producer.flush(_WAIT_S)
            producer.abort_transaction(_WAIT_S)
        except KafkaException:
            return  # the broker is away: what was written is never committed

    def flush(self) -> bool:
        """Wait until the broker has everything; say whether it has."""
        return self._producer.flush(PATIENCE_S) == 0

    def _new(self, settings: dict[str, object]) -> Producer:
        return Producer(
            {"bootstrap.servers": self._broker, "log_level": 2, "linger.ms": 5, **settings}
        )
