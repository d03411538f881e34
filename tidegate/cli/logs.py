"""The log lines of commands: warnings and errors on standard error, searched for secrets once more.

Workers and Spark queries configure lines of their own.
"""

from __future__ import annotations

import logging
import sys

from tidegate.client.shown_text import shown_lines
from tidegate.redaction import redacted


class _ShownLines(logging.Formatter):
    """Formats a line with its trace. Secrets that this process has used and control characters are left
    out."""

    def format(self, record: logging.LogRecord) -> str:
        """See ``logging.Formatter``."""
        return shown_lines(redacted(super().format(record)))


def configure_logs() -> None:
    """Send the lines of this process from WARNING on to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_ShownLines("%(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.WARNING)
