"""What the jobs agent does with a feed before it starts, and when it ends."""
