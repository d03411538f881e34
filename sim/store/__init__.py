"""The simulated store: ranges, transactions, splits and merges, scans, pushes."""
