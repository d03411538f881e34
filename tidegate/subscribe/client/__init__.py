"""The consumer's side: it takes rows of any SUBSCRIBE, and gives complete batches, and tokens from which to
resume."""
