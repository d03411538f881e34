"""Kafka for tidegate's own readers and writers."""
