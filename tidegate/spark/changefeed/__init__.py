"""One Spark query that runs all feeds of an application that are Spark's."""
