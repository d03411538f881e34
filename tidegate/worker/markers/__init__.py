"""Progress and markers of feeds."""
