"""State backends: where keyed state lies on this machine.  Kafka alone is where it is kept."""
