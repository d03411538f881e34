"""The envelopes: one module for each, and the registry of them all."""
