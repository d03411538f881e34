"""The rows of feeds on their way to their sinks."""
