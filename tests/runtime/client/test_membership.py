"""What the client's bytes say of a membership; test_scaling.py has real ones."""

import struct

from confluent_kafka import Consumer

from tidemark.runtime.client.membership import Membership


def membership(generation: int, member: bytes = b"m") -> Membership:
    return Membership(b"CGMDv2:" + struct.pack("=i", generation) + b"group\0" + member + b"\0\1")


def test_a_consumer_outside_of_a_group_has_no_membership():
    consumer = Consumer({"bootstrap.servers": "127.0.0.1:1", "group.id": "g"})
    outside = Membership.of(consumer)
    assert outside.generation == -1
    assert not outside.is_held
    consumer.close()


def test_a_later_generation_continues_a_membership():
    assert membership(4).continues(membership(3))
    assert membership(3).continues(membership(3))


def test_another_member_id_or_no_generation_does_not():
    assert not membership(4, b"other").continues(membership(3))
    assert not membership(-1).continues(membership(3))
    assert not membership(0).continues(membership(3))
