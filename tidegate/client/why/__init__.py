"""Explains what holds a feed back: evidence from workers and topics, and findings in sentences."""
