"""Starts the Spark session of tidegate's jobs, with the Kafka connector and the right Java and Python."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from tidegate.errors import SettingsError
from tidegate.spark.platform.executors import PAGE, Needs, on_this_machine, prepare_executors, words_of
from tidegate.spark.platform.java import require_java

_CONNECTOR: Final = "org.apache.spark:spark-sql-kafka-0-10_2.13"
#: Options of sources that Spark must not show in plans: Spark's default, and those that
#: `tidegate.spark.platform.kafka_source` sets.
_SECRETS: Final = "(?i)url|password|jaas|keystore"
_FOR_STREAMS: Final = {
    "spark.sql.redaction.options.regex": _SECRETS,
    "spark.sql.adaptive.enabled": "false",  # streams do not support it, and would log that
}
_LOOPBACK: Final = "127.0.0.1"
#: The masters for which Spark makes the secret of ``spark.authenticate`` itself.
_ONE_MACHINE: Final = re.compile(r"local(\[(\d+|\*)(\s*,\s*\d+)?\])?")
#: All users of a machine reach its loopback (docs/security.md#spark-on-one-machine).
_CLOSED: Final = {"spark.authenticate": "true", "spark.ui.enabled": "false"}
_NOTHING: Final[Mapping[str, str]] = {}


@dataclass(frozen=True, slots=True)
class Placement:
    """The place where Spark runs, and its Kafka connector.

    ``master`` is as Spark names it; empty stands for what ``spark-submit`` says. ``jars`` are the
    connector's; when empty, Spark resolves the connector, and with ``None`` the job needs no connector.
    ``py_files`` are for executors; ``conf`` are properties of Spark.
    """

    master: str = ""
    jars: Sequence[Path] | None = ()
    py_files: Sequence[Path] = ()
    conf: Mapping[str, str] = field(default_factory=dict)


def connector() -> str:
    """Return the Maven coordinates of the Kafka connector for the installed PySpark."""
    return f"{_CONNECTOR}:{pyspark.__version__}"


def submitted() -> bool:
    """Return whether ``spark-submit`` runs this process. If it does, it says where Spark runs, and with which
    jars.
    """
    return "PYSPARK_GATEWAY_PORT" in os.environ


def submitted_conf() -> Mapping[str, str]:
    """Return the properties that ``spark-submit`` was given; none if it does not run this process."""
    if not submitted():
        return {}
    SparkContext._ensure_initialized()  # noqa: SLF001 - without it there is no Java to ask yet
    return dict(SparkConf().getAll())


def has_session() -> bool:
    """Return whether Spark runs in this process already. If so, others use its session, too."""
    return SparkContext._active_spark_context is not None  # noqa: SLF001 - the session of any thread counts


@contextmanager
def placed_session(
    name: str,
    placement: Placement,
    needs: Needs,
    config: Mapping[str, str] = _NOTHING,
    logins: Mapping[str, str] = _NOTHING,
) -> Iterator[SparkSession]:
    """Yield a session where a job is placed, with executors that have what its tasks need.

    The session is stopped at the end of the ``with``. If Spark runs in this process already, the job runs
    there, in a session with settings of its own, and nothing is stopped: other queries go on. The placement's
    properties win over those of ``config`` and ``logins``. Raises as ``start_session`` and
    ``prepare_executors`` do.
    """
    is_ours = not has_session()
    session = _new_session(name, placement, config, logins) if is_ours else _session_beside()
    try:
        prepare_executors(session, placement.py_files, needs)
        yield session
    finally:
        if is_ours:
            session.stop()


def _new_session(
    name: str, placement: Placement, config: Mapping[str, str], logins: Mapping[str, str]
) -> SparkSession:
    try:
        return start_session(
            name,
            master=placement.master or None,
            jars=placement.jars,
            config={**config, **placement.conf},
            logins={key: value for key, value in logins.items() if key not in placement.conf},
        )
    except SettingsError:
        raise
    except Exception as error:
        raise SettingsError(
            f"Spark cannot start at {placement.master or 'the place that spark-submit names'}: "
            f"{words_of(error)} The logs of its master and workers say more. {PAGE}"
        ) from None


def _session_beside() -> SparkSession:
    """Return a session of the Spark that runs already."""
    session = SparkSession.builder.getOrCreate().newSession()
    for key, value in _FOR_STREAMS.items():
        session.conf.set(key, value)
    return session


def start_session(
    name: str,
    *,
    master: str | None = None,
    jars: Sequence[Path] | None = (),
    config: Mapping[str, str] = _NOTHING,
    logins: Mapping[str, str] = _NOTHING,
) -> SparkSession:
    """Return a session with the Kafka connector.

    The connector comes from ``jars``, or Spark resolves its Maven coordinates, unless ``spark-submit`` was
    given the connector. With ``jars=None`` the session has none. Without ``master`` Spark runs where
    ``spark-submit`` says, or on this machine, where it is closed to other users (`closed_to_others`). Python
    workers run the Python of this process unless ``PYSPARK_PYTHON`` names another. ``logins`` are properties
    of ``config`` that no command line may show. Raises ``SettingsError`` for a Java that Spark cannot use.
    """
    if not submitted():
        require_java()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is not None:
        builder = builder.master(master)
        if on_this_machine(master):  # otherwise the network reaches Spark's driver and its web pages
            os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    if jars:
        builder = builder.config("spark.jars", ",".join(map(str, jars)))
    elif jars is not None and not submitted():
        builder = builder.config("spark.jars.packages", connector())
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config(map={**_FOR_STREAMS, **config})
    _start_java(builder)
    builder = builder.config(map=dict(logins))
    if not has_session():
        builder = builder.config(map=dict(closed_to_others(_known(builder))))
    return builder.getOrCreate()


def closed_to_others(conf: Mapping[str, str]) -> Mapping[str, str]:
    """Return the properties that close a Spark with the properties ``conf`` to other users of the machine.

    Properties that somebody has set stay as they are. For a cluster none are returned: an operator has to
    make its secret.
    """
    if _ONE_MACHINE.fullmatch(conf.get("spark.master", "")) is None:
        return {}
    return {name: value for name, value in _CLOSED.items() if name not in conf}


def _known(builder: SparkSession.Builder) -> Mapping[str, str]:
    """Return the properties of the session, with those that Spark's Java has from elsewhere, such as
    ``spark-defaults.conf``.
    """
    return {**dict(SparkConf().getAll()), **builder._options}  # noqa: SLF001 - nothing else gives them


def _start_java(builder: SparkSession.Builder) -> None:
    """Start Spark's Java with the properties that ``builder`` has, unless it runs already.

    These properties stand on its command line, which all users of the machine can read. Properties that are
    set later do not.
    """
    conf = SparkConf().setAll(list(builder._options.items()))  # noqa: SLF001 - nothing else gives them
    SparkContext._ensure_initialized(conf=conf)  # noqa: SLF001
