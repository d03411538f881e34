"""What the page of feeds shows: the state of each feed, and what holds it back (docs/serve.md#feeds)."""
