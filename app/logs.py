"""Log lines: ours by structlog, those of Faust and the Kafka clients by the standard library, one format."""

from __future__ import annotations

import logging
import sys
from typing import Any, Final

import structlog

from app.repeated_lines import RepeatedLines
from tidegate.redaction import redacted
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
                _renderer(settings.log_format),
                _redacted,
            ],
        )
    )
    handler.addFilter(RepeatedLines((KAFKA_LOGGER.name, "aiokafka", "tidegate.schemas", "tidegate.foreign")))
    logging.basicConfig(handlers=[handler], level=settings.log_level, force=True)
    for name in _LOUD:  # their INFO tells of every request and service (ours log as "tidegate...")
        logging.getLogger(name).setLevel(max(logging.WARNING, logging.getLevelName(settings.log_level)))
    KAFKA_LOGGER.addFilter(_KnownWarning())
    structlog.configure(
        processors=[*_SHARED, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


class _KnownWarning(logging.Filter):
    """Drops librdkafka's remark on the gapless guarantee at every start: we know, and need it
    (tidegate.worker.output.row_producer)."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether to write the line."""
        return "enable.gapless.guarantee is experimental" not in record.getMessage()


def _renderer(log_format: LogFormat) -> structlog.types.Processor:
    if log_format is LogFormat.JSON:
        return structlog.processors.JSONRenderer()
    return structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty())


def _redacted(_: object, __: str, line: Any) -> Any:
    """The line as it leaves the process."""
    return redacted(line)
