"""A range as its log shows it: its state, open transactions, resolved timestamp, holes and hand-offs."""
