"""Batches as columns, without a tuple for each row: Arrow reads the JSON of many rows together."""
