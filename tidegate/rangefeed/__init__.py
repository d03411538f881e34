"""From a range's log to committed versions and resolved timestamps."""
