"""The steps of the jobs agent for a feed, before it starts and when it ends."""
