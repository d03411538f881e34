"""Records of rows and markers: their bytes, and what readers make of them."""
