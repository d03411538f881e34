"""The documentation site: ``python -m docsite`` builds it from the pages as they are (`make docs`)."""
