"""What the Spark jobs are made of; `pipeline/` has what `spark-submit` takes."""
