"""The workloads: what clients write to the simulated store."""
