"""A feed's past from the log itself: what `tidegate.spark.backfill.backfill` is made of
(docs/backfill.md)."""
