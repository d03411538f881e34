"""Values and rows as text."""
