"""The state of log partitions: changelogs in Kafka, local copies in RocksDB."""
