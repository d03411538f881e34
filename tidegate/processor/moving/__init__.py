"""Entries on their way to ranges that split, merge, wait and heal."""
