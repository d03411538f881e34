"""Value encodings: tagged datums, tuples and arrays, in which order does not matter but fidelity does."""
