"""``spark.readStream.format("tidegate")``: rows of feeds as DataFrames, one closed cut for each batch."""
