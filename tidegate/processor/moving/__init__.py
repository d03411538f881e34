"""How entries reach their ranges, while ranges split, merge, wait and heal."""
