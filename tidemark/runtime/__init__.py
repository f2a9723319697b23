"""What touches the world: Kafka, files, the wall clock, the environment."""
