"""Rows as Avro: schemas from table descriptors, and records of them."""
