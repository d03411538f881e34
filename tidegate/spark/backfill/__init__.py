"""A batch job that writes a feed's past from the log: what `tidegate.spark.backfill.backfill` is made of
(docs/protocols/backfill.md).
"""
