"""What ends the process ends the test."""

from __future__ import annotations


class Ended(Exception):
    """Stands for the end of the process."""
