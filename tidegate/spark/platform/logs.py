"""Log lines of the driver: structlog writes tidegate's, the standard library those of clients, in one format.

Spark's own lines come from Java, by log4j, in their own format.
"""

from __future__ import annotations

import logging
import sys
from typing import Any, Final

import structlog

from tidegate.redaction import redacted

_KAFKA: Final = "tidegate.kafka"
_SHARED: Final[list[structlog.types.Processor]] = [
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def configure_logs(level: str, *, as_json: bool) -> None:
    """Send every log line of this process from ``level`` on to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    renderer: structlog.types.Processor = (
        structlog.processors.JSONRenderer()
        if as_json
        else structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())
    )
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                renderer,
                _redacted,
            ],
        )
    )
    logging.basicConfig(handlers=[handler], level=level, force=True)
    logging.getLogger(_KAFKA).setLevel(max(logging.WARNING, logging.getLevelName(level)))
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _redacted(_: object, __: str, line: Any) -> Any:
    """Return the line without secrets, as it leaves the process."""
    return redacted(line)
