"""The demo: real flights through a real broker, watched live and audited at the end."""
