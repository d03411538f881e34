"""The SUBSCRIBE statement: its grammar, its parts, and its meaning for given tables."""
