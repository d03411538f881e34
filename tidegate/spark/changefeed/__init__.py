"""One Spark query that runs all feeds of an application whose engine is Spark."""
