"""``python -m tidegate.cli`` is ``tidegate``."""

from tidegate.cli.main import main

main()
