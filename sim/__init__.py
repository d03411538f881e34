"""The simulated range store, seeded and deterministic: its workloads, its log and its true history."""
