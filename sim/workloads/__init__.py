"""The workloads: what is written to the simulated store."""
