"""The outputs stage: updates and frontiers in, the rows that a subscriber sees out."""
