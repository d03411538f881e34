"""Schema registries: how schemas get their ids."""
