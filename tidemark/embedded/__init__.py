"""A real Kafka broker and all services on one machine, without Docker: for the demo and tests."""
