"""The gate: it takes records of many partitions, and gives row versions that are complete and in order."""
