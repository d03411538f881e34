"""Commands for consumers of complete rows: ``tidegate subscribe`` and ``tidegate serve``."""
