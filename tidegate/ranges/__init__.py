"""What a log tells of a range: its state, open transactions, resolved timestamp, holes and hand-offs."""
