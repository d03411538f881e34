"""The feeds of a log partition: what each one watches, how far it is, and how its rows become records."""
