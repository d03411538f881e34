"""The client side of schema registries."""
