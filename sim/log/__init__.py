"""What a simulated store writes: the log and its true history."""
