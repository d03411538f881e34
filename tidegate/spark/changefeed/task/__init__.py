"""What a task does with one log partition in a round."""
