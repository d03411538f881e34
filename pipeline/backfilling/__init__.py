"""A feed's past from the log itself: what `pipeline.backfill` is made of (docs/backfill.md)."""
