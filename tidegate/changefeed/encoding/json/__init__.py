"""Rows as JSON: one module an envelope."""
