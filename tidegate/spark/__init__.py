"""What the Spark jobs are made of. The entry points for `spark-submit` are in `pipeline/`."""
