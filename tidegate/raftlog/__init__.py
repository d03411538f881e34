"""The log contract: what a range store writes to the raftlog topic, and what tidegate asks the store for."""
