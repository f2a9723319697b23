from confluent_kafka import Message

from tidemark.runtime.service.batch_sizer import BatchRoom, BatchSizer


def test_portions_begin_small_and_grow_while_they_are_quick():
    batch_sizer = BatchSizer(64, transaction_timeout_ms=30_000)
    sizes = []
    for _ in range(8):
        sizes.append(batch_sizer.size)
        batch_sizer.took(batch_sizer.size, 0.1)
    assert sizes == [1, 2, 4, 8, 16, 32, 64, 64]


def test_a_portion_that_takes_too_long_is_cut_to_what_fits():
    batch_sizer = BatchSizer(20_000, transaction_timeout_ms=10_000)
    batch_sizer.took(312, 0.5)
    assert batch_sizer.size == 624
    batch_sizer.took(600, 6.0)
    assert batch_sizer.size == 100
    batch_sizer.took(100, 1_000.0)
    assert batch_sizer.size == 1


def test_a_portion_that_was_not_full_says_nothing_of_larger_ones():
    batch_sizer = BatchSizer(64, transaction_timeout_ms=30_000)
    batch_sizer.took(1, 0.1)
    batch_sizer.took(1, 0.1)
    assert batch_sizer.size == 2


def messages(count: int, size: int) -> list[Message]:
    return [Message(topic="t", partition=0, offset=0, value=b"x" * size)] * count


def test_a_batch_is_read_in_portions_that_grow():
    room = BatchRoom(20_000, most_bytes=2**20)
    room.add(messages(1, 10))
    read = []
    while count := room.messages:
        read.append(count)
        room.add(messages(count, 10))
    assert read[:6] == [4, 20, 100, 500, 1_000, 1_000]
    assert sum(read) == 19_999


def test_a_batch_of_large_messages_ends_by_their_size():  # C1, C4
    room = BatchRoom(20_000, most_bytes=16 * 2**20)
    room.add(messages(1, 3_000_000))
    assert room.messages == 4
    room.add(messages(4, 3_000_000))
    assert room.messages == 0


def test_small_messages_before_large_ones_do_not_hide_their_size():  # C1
    room = BatchRoom(20_000, most_bytes=2**20)
    room.add(messages(100, 10))
    room.add(messages(10, 100_000))
    assert room.messages == 0


def test_a_message_larger_than_a_batch_is_a_batch():
    room = BatchRoom(20_000, most_bytes=2**20)
    room.add(messages(1, 2**21))
    assert room.messages == 0


def test_keys_count_too():
    room = BatchRoom(20_000, most_bytes=2**20)
    large = Message(topic="t", partition=0, offset=0, key=b"k" * 200_000, value=b"x")
    room.add([large])
    assert room.messages == 4
    room.add([large] * 4)
    assert room.messages == 0
