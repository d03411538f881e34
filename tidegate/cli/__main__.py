"""Lets ``python -m tidegate.cli`` do the same as ``tidegate``."""

from tidegate.cli.main import main

main()
