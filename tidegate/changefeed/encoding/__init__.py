"""Records of rows and markers: how they are encoded, and how readers decode them."""
