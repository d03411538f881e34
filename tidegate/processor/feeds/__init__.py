"""The feeds of a partition: what each watches, where it stands, and its rows as records."""
