"""Makes a Kafka Connect 4.1 worker: a standalone one, with an Avro converter and a sink for databases."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from zipfile import ZipFile

from stack.coordinate import Archive, Coordinate
from stack.downloads.archives import unpacked
from stack.downloads.jars import JarSet, resolve
from stack.errors import StackError
from stack.java import OLDEST_FOR_KAFKA, find_java
from stack.jvm import Jvm
from stack.ports import LOOPBACK, accepts_connections, choose_port, host_and_port
from stack.private import write_private
from stack.processes.server import Request, ServerPlan
from stack.rest import get_succeeds

JARS = JarSet(
    "connect",
    (
        Coordinate("org.apache.kafka", "connect-runtime", "4.1.0"),
        Coordinate("org.apache.kafka", "connect-json", "4.1.0"),
        Coordinate("org.apache.kafka", "connect-file", "4.1.0"),
        # The jars do not depend on it, but Kafka's own distribution has it: without it the log stays empty.
        Coordinate("org.apache.logging.log4j", "log4j-slf4j-impl", "2.26.1"),
    ),
)
# Confluent's own converter is not published on Maven Central. This one reads the same frames.
AVRO = JarSet(
    "connect-avro", (Coordinate("io.apicurio", "apicurio-registry-utils-converter", "2.6.13.Final"),)
)
JDBC = Archive(Coordinate("io.debezium", "debezium-connector-jdbc", "3.4.0.Final"), "plugin", size_mb=35)

# The service file by which Connect finds a converter (KIP-898). Apicurio's converter has none. Without it
# Connect would look into every class of every plugin, which takes five seconds and 150 MiB more.
_CONVERTERS = "META-INF/services/org.apache.kafka.connect.storage.Converter"
_AVRO_CONVERTER = "io.apicurio.registry.utils.converter.AvroConverter\n"

# The converter depends on an older Kafka. These jars of it are left out: the worker has its own.
_WORKERS_OWN = ("connect-", "kafka-clients-")

_BOOTSTRAP = "bootstrap.servers"
_JVM = ("-Xms64m", "-Xmx384m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

# Every name is a worker configuration of Kafka Connect 4.1.
SETTINGS = {
    "key.converter": "org.apache.kafka.connect.json.JsonConverter",
    "value.converter": "org.apache.kafka.connect.json.JsonConverter",
    "plugin.discovery": "service_load",
    "offset.flush.interval.ms": "1000",  # a sink that is killed repeats this much at most
    "consumer.isolation.level": "read_committed",  # markers come in transactions; one may be aborted
    "consumer.session.timeout.ms": "6000",  # a start after a kill waits so long for the dead worker
    "consumer.heartbeat.interval.ms": "2000",
    "consumer.metadata.max.age.ms": "5000",  # a new topic that a pattern matches is seen after this time
}


class Connect:
    """The recipe: a worker's jars, two plugins, one loopback port; it needs a Kafka broker."""

    name = "connect"

    def plan(self, request: Request) -> ServerPlan:
        """Download the worker and configure it. It goes on from the source offsets of an earlier plan.

        Raises:
            JavaMissing, DownloadFailed, PortTaken: what their names say.
            AddressRefused: the address of a broker names no host or no port.
            StackError: no broker was named and none is up, or nothing listens at its address.
        """
        settings = {**request.settings, _BOOTSTRAP: _bootstrap(request)}
        java = find_java(OLDEST_FOR_KAFKA).executable
        port = choose_port(request.port)
        jars = resolve(JARS)
        request.home.mkdir(parents=True, exist_ok=True)
        request.data.mkdir(parents=True, exist_ok=True)
        plugin_path = _link(request.home / "plugins")
        properties = request.home / "worker.properties"
        write_private(properties, worker_properties(port, plugin_path, request.data, settings))
        jvm = Jvm.with_logging_in(request.home, java, jars)
        return ServerPlan(
            name=self.name,
            command=jvm.command(_JVM, "org.apache.kafka.connect.cli.ConnectStandalone", str(properties)),
            address=f"http://{LOOPBACK}:{port}",
            log=request.home / "server.log",
            data=request.data,
        )

    def answers(self, address: str) -> bool:
        """Whether the worker at ``address`` takes connectors."""
        return get_succeeds(f"{address}/connectors")


def worker_properties(port: int, plugin_path: Path, data: Path, overrides: Mapping[str, str]) -> str:
    """Return the text of ``worker.properties``: a listener on loopback, our settings, then ``overrides``."""
    settings = {
        **SETTINGS,
        "listeners": f"http://{LOOPBACK}:{port}",
        "plugin.path": str(plugin_path),
        "offset.storage.file.filename": str(data / "offsets"),
        **overrides,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def _bootstrap(request: Request) -> str:
    named = request.settings.get(_BOOTSTRAP) or request.running.get("kafka") or ""
    addresses = [address.strip() for address in named.split(",") if address.strip()]
    if not addresses:
        raise StackError(
            "Kafka Connect needs a broker, and no Kafka of the stack is up: run `tidegate stack up kafka` "
            f"first, or name another one with --set {_BOOTSTRAP}=HOST:PORT."
        )
    bootstrap = ",".join(addresses)
    for address in addresses:
        host_and_port(address)  # raises for a wrong address, even if another one listens
    if not any(map(accepts_connections, addresses)):
        raise StackError(
            f"Kafka Connect cannot start: nothing listens at {bootstrap}, where its Kafka broker should be. "
            "Start the broker first, or correct the address."
        )
    return bootstrap


def _link(into: Path) -> Path:
    """Make a directory with the two plugins alone: to Connect every directory in it is a plugin."""
    shutil.rmtree(into, ignore_errors=True)
    avro = into / "avro"
    avro.mkdir(parents=True)
    for jar in resolve(AVRO):
        if not jar.name.startswith(_WORKERS_OWN):
            (avro / jar.name).symlink_to(jar.resolve())
    with ZipFile(avro / "manifest.jar", "w") as manifest:
        manifest.writestr(_CONVERTERS, _AVRO_CONVERTER)
    (into / "jdbc").symlink_to(unpacked(JDBC).resolve(), target_is_directory=True)
    return into
