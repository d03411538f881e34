"""The changes stage: it takes row versions, and gives updates ``(time, diff, row)``."""
