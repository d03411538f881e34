"""The parts of the Spark jobs. The entry points for `spark-submit` are in `pipeline/`."""
