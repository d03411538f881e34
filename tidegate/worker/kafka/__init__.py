"""A worker's Kafka: transport, group, topics, transactions, batches as they are fetched."""
