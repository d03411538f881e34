"""Values that all stages share: updates, frontiers, relations, and when rows are equal or in order."""
