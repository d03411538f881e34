"""The work of a task on one log partition in a round."""
