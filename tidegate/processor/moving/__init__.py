"""The way of entries to their ranges, while ranges split, merge, wait and heal."""
