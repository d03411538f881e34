"""The outputs stage: it takes updates and frontiers, and gives the rows that a subscriber sees."""
