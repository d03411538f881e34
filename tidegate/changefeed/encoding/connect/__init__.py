"""Rows for Kafka Connect: types of columns, schemas of records, and the forms that its sinks expect."""
