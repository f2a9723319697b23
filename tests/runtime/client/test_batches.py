from confluent_kafka import Message

from tidemark.partition import Partition
from tidemark.runtime.client.batches import by_partition, record_batch


def message(topic: str, partition: int, offset: int) -> Message:
    return Message(
        topic=topic,
        partition=partition,
        offset=offset,
        key=f"key {offset}".encode(),
        value=f"value {offset}".encode(),
        headers=[("at", str(offset).encode())],
        timestamp=(1, 1000 + offset),
    )


def grouped(*places: tuple[str, int]) -> dict[Partition, list[int | None]]:
    messages = [message(*place, offset) for offset, place in enumerate(places)]
    groups = by_partition(messages, {topic for topic, _ in places})
    return {at: [m.offset() for m in group] for at, group in groups.items()}


def test_messages_of_a_partition_come_together_in_order():
    assert grouped(("a", 0), ("a", 0), ("a", 1), ("a", 0), ("a", 1)) == {
        ("a", 0): [0, 1, 3],
        ("a", 1): [2, 4],
    }


def test_partitions_of_two_topics_with_one_number_are_kept_apart():
    assert grouped(("a", 1), ("b", 1), ("b", 1), ("a", 1)) == {("a", 1): [0, 3], ("b", 1): [1, 2]}


def test_a_single_message_is_a_group():
    assert grouped(("a", 7)) == {("a", 7): [0]}


def test_columns_of_a_batch_belong_to_the_same_records():
    messages = [message("a", 1, offset) for offset in (3, 4, 7)]

    batch = record_batch(Partition("a", 1), messages, received_at_ms=5)

    assert batch.offsets.tolist() == [3, 4, 7]
    assert batch.next_offset == 8
    assert batch.values == [b"value 3", b"value 4", b"value 7"]
    assert batch.timestamp_column().tolist() == [1003, 1004, 1007]
    assert (batch.timestamps[2], batch.keys[2]) == (1007, b"key 7")
    assert batch.headers[2] == [("at", b"7")]
