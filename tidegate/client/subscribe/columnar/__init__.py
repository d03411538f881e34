"""Batches as columns, without a tuple for each row: Arrow reads the JSON of a whole opening in one go."""
