"""The feeds of an application as one Spark query."""
