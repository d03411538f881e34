"""Encodings of datums in values: tagged datums, tuples and arrays.

They keep every detail of a datum. Their bytes do not sort as the datums do.
"""
