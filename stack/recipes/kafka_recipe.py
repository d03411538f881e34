"""Makes a Kafka 4.1 cluster of one node: KRaft mode, broker and controller in one process."""

from __future__ import annotations

import base64
import os
import shutil
import subprocess
import uuid
from collections.abc import Mapping
from pathlib import Path

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from stack.coordinate import Coordinate
from stack.downloads.jars import JarSet, resolve
from stack.errors import ServerFailed, last_lines
from stack.java import OLDEST_FOR_KAFKA, find_java
from stack.jvm import Jvm
from stack.ports import LOOPBACK, accepts_connections, choose_port
from stack.private import write_private
from stack.processes.server import Request, ServerPlan

JARS = JarSet(
    "kafka",
    (
        Coordinate("org.apache.kafka", "kafka_2.13", "4.1.0"),
        # The jar does not depend on it, but Kafka's own distribution has it: without it the log stays empty.
        Coordinate("org.apache.logging.log4j", "log4j-slf4j-impl", "2.26.1"),
    ),
)
#: The most that a broker's heap may take. It has room for clients of a hundred topics and requests of tens of
#: MiB. Memory is taken only when it is needed.
_HEAP_MIB = 1024
_FORMAT_TIMEOUT_S = 60
_METADATA_TIMEOUT_S = 2.0

#: The environment variable that names a file with Kafka's classes as the JVM keeps them (class data sharing).
#: With that file a broker takes 1.7 s less of processor time to be formatted and started.
#: `tests/class_archive.py` makes one for each run.
CLASS_ARCHIVE = "TIDEGATE_KAFKA_CLASS_ARCHIVE"

#: The environment variable that names a ``bootstrap.checkpoint``, which Kafka's format tool has written for
#: another broker of these jars. It holds the features of the cluster, and no id. With that file a new data
#: directory is made without the tool. The tool is a JVM of its own and takes 1.3 s of processor time. Each
#: run of the tests takes the file of its first broker (`tests/shared_broker.py`).
BOOTSTRAP_CHECKPOINT = "TIDEGATE_KAFKA_BOOTSTRAP_CHECKPOINT"

# Sized for a laptop of two cores; every name is a broker configuration of Kafka 4.1.
SETTINGS = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "auto.create.topics.enable": "false",  # a misspelt topic is an error, not a new topic
    "log.retention.ms": "-1",  # record times are commit timestamps, which may lie far in the past
    "offsets.topic.num.partitions": "8",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "8",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "group.initial.rebalance.delay.ms": "0",
    "broker.heartbeat.interval.ms": "1000",
    "broker.session.timeout.ms": "4000",  # a start after a kill waits so long for the dead broker's session
    "num.network.threads": "2",
    "num.io.threads": "4",
    "log.cleaner.dedupe.buffer.size": str(16 << 20),  # 128 MiB of the heap by default
}


class Kafka:
    """The recipe: jars by Maven coordinates, a formatted log directory, two loopback ports."""

    name = "kafka"

    def plan(self, request: Request) -> ServerPlan:
        """Download the broker, configure it and format its data. Data of an earlier plan stay as they are.

        Raises:
            JavaMissing, DownloadFailed, PortTaken: what their names say.
            ServerFailed: the data directory cannot be formatted.
        """
        java = find_java(OLDEST_FOR_KAFKA).executable
        port = choose_port(request.port)
        controller_port = choose_port(other_than=port)
        jars = resolve(JARS)
        properties = request.home / "server.properties"
        request.home.mkdir(parents=True, exist_ok=True)
        jvm = Jvm.with_logging_in(request.home, java, jars)
        write_private(properties, server_properties(port, controller_port, request.data, request.settings))
        if not (request.data / "meta.properties").exists() and not _copied_format(request):
            _format(jvm, properties, request.data)
        return ServerPlan(
            name=self.name,
            command=jvm.command(
                # By default a broker that runs out of memory loses threads and runs on without them.
                (*_archived_classes(), "-Xms256m", f"-Xmx{_HEAP_MIB}m", "-XX:+ExitOnOutOfMemoryError"),
                "kafka.Kafka",
                str(properties),
            ),
            address=f"{LOOPBACK}:{port}",
            log=request.home / "server.log",
            data=request.data,
        )

    def answers(self, address: str) -> bool:
        """Whether the broker at ``address`` has registered with its controller and serves metadata."""
        if not accepts_connections(address):
            return False
        client = AdminClient({"bootstrap.servers": address, "log_level": 0})
        try:
            return bool(client.list_topics(timeout=_METADATA_TIMEOUT_S).brokers)
        except KafkaException:
            return False


def server_properties(port: int, controller_port: int, data: Path, overrides: Mapping[str, str]) -> str:
    """Return the text of ``server.properties``: listeners on loopback, our settings, then ``overrides``."""
    listener = f"PLAINTEXT://{LOOPBACK}:{port}"
    settings = {
        **SETTINGS,
        "listeners": f"{listener},CONTROLLER://{LOOPBACK}:{controller_port}",
        "advertised.listeners": listener,
        # A static voter is not stored in the data, so the next start may choose another port.
        "controller.quorum.voters": f"1@{LOOPBACK}:{controller_port}",
        "log.dirs": str(data),
        **overrides,
    }
    return "".join(f"{name}={value}\n" for name, value in settings.items())


def cluster_id() -> str:
    """Return a random id, of a cluster or a directory, in Kafka's form (22 characters of URL-safe base64).

    It never begins with a dash, since the format tool would read such an id as an option. Kafka's own
    ``Uuid.randomUuid`` skips such ids as well.
    """
    while (text := base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")).startswith("-"):
        continue
    return text


def _archived_classes() -> tuple[str, ...]:
    """Return the options for the archive of classes, if there is one.

    The JVM ignores an archive of another Java, or of other jars.
    """
    archive = os.environ.get(CLASS_ARCHIVE, "")
    if not Path(archive).is_file():
        return ()
    return ("-Xshare:auto", "-XX:+VerifySharedSpaces", f"-XX:SharedArchiveFile={archive}")


def _copied_format(request: Request) -> bool:
    """Make the data directory from another broker's checkpoint. Return whether there was a checkpoint."""
    checkpoint = os.environ.get(BOOTSTRAP_CHECKPOINT, "")
    if not Path(checkpoint).is_file():
        return False
    request.data.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(checkpoint, request.data / "bootstrap.checkpoint")
    node = {**SETTINGS, **request.settings}["node.id"]
    lines = ("version=1", f"node.id={node}", f"cluster.id={cluster_id()}", f"directory.id={cluster_id()}")
    # This file is written last: with it the directory counts as formatted.
    (request.data / "meta.properties").write_text("".join(f"{line}\n" for line in lines))
    return True


def _format(jvm: Jvm, properties: Path, data: Path) -> None:
    # The tool runs for a short time only, so compilers that need to warm up are left out.
    options = (*_archived_classes(), "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
    arguments = ("format", "--cluster-id", cluster_id(), "--config", str(properties), "--ignore-formatted")
    try:
        done = subprocess.run(  # noqa: S603 - Kafka's own tool, with arguments of ours
            jvm.command(options, "kafka.tools.StorageTool", *arguments),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_FORMAT_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise ServerFailed(
            f"Formatting Kafka's data directory {data} took longer than {_FORMAT_TIMEOUT_S} s and was "
            "stopped; is the machine overloaded?"
        ) from late
    if done.returncode:
        raise ServerFailed(
            f"Kafka refused its settings ({properties}) or could not format its data directory {data}; the "
            f"tool's last lines say which:\n{last_lines(done.stdout)}"
        )
