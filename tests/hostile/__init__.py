"""Inputs that broke something, or could: each decoder, each encoder and the whole step must stand them."""
