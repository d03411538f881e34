"""Makes the command line of a Java program from a set of jars. Its log goes to standard output."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple, Self

_LOG4J2 = """\
status=error
appender.out.type=Console
appender.out.name=out
appender.out.layout.type=PatternLayout
appender.out.layout.pattern=%d{ISO8601} %p %m (%c{1})%n
rootLogger.level=info
rootLogger.appenderRef.out.ref=out
# Connect's REST server writes a line for every request, and whoever waits for it asks often.
logger.rest.name=org.apache.kafka.connect.runtime.rest.RestServer
logger.rest.level=warn
"""


class Jvm(NamedTuple):
    """A Java runtime, with the jars and the log configuration with which a program and its tools run."""

    java: Path
    jars: tuple[Path, ...]
    logging: Path

    @classmethod
    def with_logging_in(cls, home: Path, java: Path, jars: tuple[Path, ...]) -> Self:
        """Write a configuration of Log4j 2 into ``home``, and return a ``Jvm`` that uses it."""
        logging = home / "log4j2.properties"
        logging.write_text(_LOG4J2)
        return cls(java, jars, logging)

    def command(self, options: tuple[str, ...], main: str, *arguments: str) -> tuple[str, ...]:
        """Return the command line that runs the class ``main``."""
        class_path = os.pathsep.join(map(str, self.jars))
        logging = f"-Dlog4j2.configurationFile={self.logging}"
        return (str(self.java), *options, logging, "-cp", class_path, main, *arguments)
