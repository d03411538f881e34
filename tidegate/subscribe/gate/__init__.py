"""The gate: records of many partitions in, whole and ordered row versions out."""
