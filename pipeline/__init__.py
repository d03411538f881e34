"""PySpark jobs: the changefeeds of the Faust worker by the same core, to the same bytes (docs/spark.md)."""
