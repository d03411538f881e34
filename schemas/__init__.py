"""Gets the ids of schemas from schema registries, for a worker."""
