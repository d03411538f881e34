"""What a log says of a range: its state, open transactions, resolved timestamp, holes and hand-offs."""
