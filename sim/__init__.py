"""The simulated range store: seeded and deterministic; its workloads, its log and the truth about it."""
