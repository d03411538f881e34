"""Log lines of the driver: structlog writes tidegate's, the standard library those of clients, in one format.

Spark's own lines come from Java, by log4j. They are text for people, unless `configure_java_logs` gives
them the JSON of the other lines.
"""

from __future__ import annotations

import json
import logging
import sys
from typing import Final

import structlog
from pyspark.sql import SparkSession

from tidegate.client.shown_text import shown_event
from tidegate.redaction import redacted_event, redacted_line

_KAFKA: Final = "tidegate.kafka"
#: The form of Java's lines: the keys are those of Python's lines.
_JAVA_LINE: Final = {
    "event": {"$resolver": "message", "stringified": True},
    "level": {
        "$resolver": "caseConverter",
        "case": "lower",
        "input": {"$resolver": "level", "field": "name"},
    },
    "logger": {"$resolver": "logger", "field": "name"},
    "timestamp": {
        "$resolver": "timestamp",
        "pattern": {"format": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS'Z'", "timeZone": "UTC"},
    },
    "exception": {
        "$resolver": "exception",
        "field": "stackTrace",
        "stackTrace": {"stringified": True},
    },
}
_SHARED: Final[list[structlog.types.Processor]] = [
    structlog.stdlib.add_log_level,
    structlog.stdlib.add_logger_name,
    structlog.processors.TimeStamper(fmt="iso", utc=True),
]


def configure_logs(level: str, *, as_json: bool) -> None:
    """Send every log line of this process from ``level`` on to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    renderers: list[structlog.types.Processor] = (
        [redacted_event, structlog.processors.JSONRenderer()]
        if as_json
        else [shown_event, structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty()), redacted_line]
    )
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=_SHARED,
            processors=[
                structlog.stdlib.ProcessorFormatter.remove_processors_meta,
                structlog.processors.format_exc_info,
                *renderers,
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


def configure_java_logs(session: SparkSession) -> None:
    """Have the driver's Java write its lines as JSON to standard error, from now on.

    Lines that it wrote before are text. Python workers and executors of a cluster write their own logs, as
    before.
    """
    java = session.sparkContext._jvm.org.apache.logging.log4j  # type: ignore[union-attr]  # noqa: SLF001
    context = java.LogManager.getContext(False)
    config = context.getConfiguration()
    layout = java.layout.template.json.JsonTemplateLayout.newBuilder()
    layout = layout.setConfiguration(config).setEventTemplate(json.dumps(_JAVA_LINE)).build()
    appender = java.core.appender.ConsoleAppender.newBuilder().setName("tidegate").setLayout(layout)
    target = java.core.appender.ConsoleAppender.Target.SYSTEM_ERR
    appender = appender.setTarget(target).build()
    appender.start()
    root = config.getRootLogger()
    for name in list(root.getAppenders()):
        root.removeAppender(name)
    root.addAppender(appender, None, None)
    context.updateLoggers()
