"""The bench's own part in the contest with other software."""
