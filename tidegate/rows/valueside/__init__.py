"""Encodings of datums in values: tagged datums, tuples and arrays. They keep every detail and no order."""
