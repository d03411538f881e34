"""The state that a subscription keeps between two runs: rows by key, and checkpoints with tokens."""
