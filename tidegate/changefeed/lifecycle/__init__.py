"""A feed from its definition to its end: jobs, control messages, start, takeover, frontier."""
