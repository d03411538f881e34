"""A worker's use of Kafka: transport, consumer group, topics, transactions, fetched batches."""
