"""The feeds of one range as CockroachDB's rangefeed gives them: values and checkpoints.

No worker runs them.
"""
