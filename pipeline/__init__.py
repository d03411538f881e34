"""The Spark jobs as `spark-submit` takes them. `tidegate/spark` has their parts."""
