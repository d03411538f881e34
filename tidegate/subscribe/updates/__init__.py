"""Values that all stages share: updates, frontiers and relations, and the equality and order of rows."""
