"""The batch job that writes a feed's past from the log (docs/protocols/backfill.md).

`tidegate.spark.backfill.backfill` is the job. The other modules are its parts.
"""
