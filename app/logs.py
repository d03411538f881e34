"""Configures log lines, which all have one format.

tidegate's own lines come from structlog, those of Faust and the Kafka clients from the standard library.
"""

from __future__ import annotations

import logging
import sys
from typing import Final

import structlog

from app.repeated_lines import RepeatedLines
from tidegate.client.shown_text import shown_event
from tidegate.redaction import redacted_event, redacted_line
from tidegate.worker.kafka.clients import KAFKA_LOGGER
from tidegate.worker.process.settings import LogFormat, Settings

_LOUD: Final = ("app", "faust", "mode", "aiokafka", "tidegate.kafka", "aiohttp.access")
_SHARED: Final[list[structlog.types.Processor]] = [
    structlog.contextvars.merge_contextvars,
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def configure_logs(settings: Settings) -> None:
    """Send every log line of the process to standard error in the chosen format."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                *_renderers(settings.log_format),
            ],
        )
    )
    handler.addFilter(RepeatedLines((KAFKA_LOGGER.name, "aiokafka", "tidegate.schemas", "tidegate.foreign")))
    logging.basicConfig(handlers=[handler], level=settings.log_level, force=True)
    for name in _LOUD:  # they log every request and service at INFO; tidegate's loggers are "tidegate..."
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(settings.log_level)))
    KAFKA_LOGGER.addFilter(_KnownWarning())
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


class _KnownWarning(logging.Filter):
    """Drops librdkafka's warning about the gapless guarantee, which it logs at every start.

    ``tidegate.worker.output.row_producer`` needs that guarantee.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write the line."""
        return "enable.gapless.guarantee is experimental" not in record.getMessage()


def _renderers(log_format: LogFormat) -> list[structlog.types.Processor]:
    if log_format is LogFormat.JSON:
        return [redacted_event, structlog.processors.JSONRenderer()]
    return [shown_event, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()), redacted_line]
