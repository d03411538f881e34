"""Takes a step that was written to a file again, in Python and by the kernel, and compares the results."""
