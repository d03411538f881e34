"""One reader and one table of rows by key for all subscribers of a table (docs/serve.md, its steps)."""
