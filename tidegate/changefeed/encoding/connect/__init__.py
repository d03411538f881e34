"""Rows as Kafka Connect knows them: types of columns, schemas of records, and what its sinks expect."""
