"""A stand-in for the end of the process, which tests would not outlive."""

from __future__ import annotations


class Ended(Exception):
    """Stands for the end of the process."""
