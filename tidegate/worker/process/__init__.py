"""The process of a worker: settings, data directory, threads, end."""
