"""The ranges of a log partition by id, their backlogs, and how they are quarantined."""
