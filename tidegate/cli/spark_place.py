"""The options that say where a Spark job runs, and where it keeps durable data. Each command of
``tidegate spark`` has them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, Final

import click

from tidegate.cli.service_tree import service_module
from tidegate.errors import SettingsError, TidegateError

#: The kinds of files that Spark's executors import: a wheel is a zip, and has to be named so.
_PY_FILES: Final = frozenset({".zip", ".egg", ".py"})

#: All cores of this machine. A task is tried four times, as on a cluster: with ``local[*]`` Spark tries it
#: once, and a Python worker that is killed for its memory would end the job.
_THIS_MACHINE: Final = "local[*,4]"

master_option = click.option(
    "--master", help=f"Where Spark runs: {_THIS_MACHINE} unless spark-submit says something else."
)
jars_option = click.option(
    "--jars",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A jar of Spark's Kafka connector; without any it is downloaded once, or spark-submit's to name.",
)
py_files_option = click.option(
    "--py-files",
    "py_files",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A .zip or .py for executors, instead of the package that runs here (`tidegate spark package`).",
)
conf_option = click.option(
    "--conf",
    multiple=True,
    metavar="KEY=VALUE",
    help="A property of Spark, such as spark.executor.memory=4g.",
)
output_topics_option = click.option(
    "--output-topics",
    envvar="TIDEGATE_OUTPUT_TOPICS",
    default="",
    show_envvar=True,
    help="Topics that feeds may write to: patterns with * for any letters, comma-separated. Give the same as "
    "the application's workers have.",
)


def spark_master(master: str | None) -> str | None:
    """Return the given master. Without one it is this machine, or ``None`` if ``spark-submit`` decides.

    Raises as ``service_module`` does.
    """
    if master is None and not service_module("tidegate.spark.platform.session").submitted():
        return _THIS_MACHINE
    return master


def placement(
    master: str | None,
    jars: tuple[Path, ...] | None,
    py_files: tuple[Path, ...],
    conf: tuple[str, ...],
) -> Any:
    """Return the placement of a job: its master, its jars, the code for executors, and Spark's properties.

    ``jars`` is ``None`` for a job that does not read Kafka by Spark. If it is empty, Spark's Kafka connector
    is taken, unless ``spark-submit`` started the job. See ``tidegate.spark.platform.session.Placement``.
    Raises ``SettingsError`` if the connector cannot be downloaded, and ``click.BadParameter`` for files and
    properties that Spark would not take.
    """
    session = service_module("tidegate.spark.platform.session")
    for file in py_files:
        if file.suffix not in _PY_FILES:
            raise click.BadParameter(f"{file} is not a .zip or .py.", param_hint="--py-files")
    properties = dict(map(_property, conf))
    if jars == () and not session.submitted():
        jars = _connector()
    return session.Placement(spark_master(master or None) or "", jars, py_files, properties)


def store_access(conf: tuple[str, ...]) -> Any:
    """Return how a job reaches object stores: by properties of Spark, and by the environment.

    See ``tidegate.spark.platform.store_access.StoreAccess``. Raises as ``placement`` does.
    """
    submitted = service_module("tidegate.spark.platform.session").submitted_conf()
    access = service_module("tidegate.spark.platform.store_access").StoreAccess
    return access.of({**submitted, **dict(map(_property, conf))}, os.environ)


def _property(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (equals and name.startswith("spark.")):
        # The value may be a secret: it is not shown.
        raise click.BadParameter(f"{name!r} is not of the form spark.NAME=VALUE.", param_hint="--conf")
    return name, value


def _connector() -> tuple[Path, ...]:
    version: str = service_module("pyspark").__version__
    try:
        found: tuple[Path, ...] = service_module("stack.downloads.spark_connector").spark_connector(version)
    except TidegateError as failure:
        cause = str(failure).partition("\n")[0].partition(" The end of its output:")[0]
        raise SettingsError(
            f"Spark's Kafka connector for PySpark {version} could not be downloaded: {cause} Or fetch its "
            "four jars where there is a network, and name each by --jars: spark-sql-kafka-0-10_2.13 and "
            f"spark-token-provider-kafka-0-10_2.13 of version {version}, kafka-clients and commons-pool2."
        ) from None
    return found
