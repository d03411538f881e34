"""The output of a simulated store: the log and its true history."""
