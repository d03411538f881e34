"""The changes stage: row versions in, updates ``(time, diff, row)`` out."""
