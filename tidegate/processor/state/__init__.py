"""The stored forms of a partition's state, and their digests."""
