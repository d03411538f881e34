"""The text of datums, as CockroachDB prints them."""
