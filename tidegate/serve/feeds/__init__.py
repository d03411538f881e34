"""The content of the page of feeds: each feed's state, and what holds it back (docs/serve.md#feeds)."""
