"""The Spark jobs as `spark-submit` takes them; what they are made of is in `tidegate/spark`."""
