"""The versions that feeds have not been given yet, and the scans that bring them."""
