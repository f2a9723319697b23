"""What tests on Kafka share, and tests on Spark and in containers too: brokers, stacks, records."""
