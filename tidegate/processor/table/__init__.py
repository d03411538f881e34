"""The table of a partition's ranges, and what it says of those that stand still."""
