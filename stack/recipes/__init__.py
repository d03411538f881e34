"""How each server is configured, started and asked whether it is ready."""
