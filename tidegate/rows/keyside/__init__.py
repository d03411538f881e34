"""Order-preserving encodings: what stands in keys."""
