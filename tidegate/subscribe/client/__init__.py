"""The consumer's side: rows of any SUBSCRIBE in, batches that are complete out, and tokens to resume from."""
