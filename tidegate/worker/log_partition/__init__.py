"""A log partition while a worker holds it: from its restored state to its release."""
