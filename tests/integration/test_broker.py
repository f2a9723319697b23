"""The embedded broker: it starts, serves, stops, and says in one line what is wrong."""

from confluent_kafka.admin import AdminClient


def test_the_broker_answers_with_one_node_and_no_topics_of_its_own_making(broker):
    cluster = AdminClient({"bootstrap.servers": broker}).list_topics(timeout=5)

    assert [str(node) for node in cluster.brokers.values()] == [f"{broker}/1"]
