"""Order-preserving encodings of datums, for keys."""
