"""Rows as JSON: one module for each envelope."""
