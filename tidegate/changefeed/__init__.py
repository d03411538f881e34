"""Changefeeds: statements and options, what a row becomes on Kafka, and the records that define a feed."""
