"""The commit loop of a log partition: step, deliver, wait, commit, in the order of batches."""
