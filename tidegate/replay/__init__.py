"""A step that is written down: it is taken again in Python and by the kernel, and both are compared."""
