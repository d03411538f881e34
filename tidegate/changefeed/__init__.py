"""Changefeeds: statements and options, the encoding of rows for Kafka, and the records that define a feed."""
