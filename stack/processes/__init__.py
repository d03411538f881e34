"""Starts server processes, ends them, and tells them apart."""
