"""Makes a schema registry: Apicurio Registry 3.3, which also has the API of Confluent's registry."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path

from stack.coordinate import Archive, Coordinate
from stack.downloads.archives import unpacked
from stack.java import OLDEST_FOR_REGISTRY, find_java
from stack.ports import LOOPBACK, choose_port
from stack.processes.server import Request, ServerPlan
from stack.rest import get_succeeds

PROGRAM = Archive(Coordinate("io.apicurio", "apicurio-registry-app", "3.3.3"), "all", size_mb=159)
CONFLUENT_API = "/apis/ccompat/v7"
NATIVE_API = "/apis/registry/v2"

# With these options the registry starts in four seconds, and takes 200 MiB in all.
_JVM = ("-Xms64m", "-Xmx192m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")

# Every name is a property of Apicurio Registry 3.3, or of Quarkus, on which the registry is built.
SETTINGS = {
    "apicurio.storage.kind": "sql",
    "apicurio.rules.global.compatibility": "BACKWARD",  # Confluent's default; Apicurio takes any schema
    # Enough connections for one developer; the default is 20 to 100.
    "apicurio.datasource.jdbc.initial-size": "2",
    "apicurio.datasource.jdbc.min-size": "2",
    "apicurio.datasource.jdbc.max-size": "8",
    "quarkus.management.host-enabled": "false",  # or it would listen on port 9000 of every interface
    "quarkus.http.access-log.enabled": "false",  # `up` asks twenty times a second while it waits
}


class ApicurioRecipe:
    """The recipe: one archive, an embedded H2 database in a file, one loopback port."""

    name = "registry"

    def plan(self, request: Request) -> ServerPlan:
        """Download the registry and configure it. The database of an earlier plan is taken as it is.

        Raises:
            JavaMissing, DownloadFailed, PortTaken: what their names say.
        """
        java = find_java(OLDEST_FOR_REGISTRY).executable
        port = choose_port(request.port)
        program = unpacked(PROGRAM) / "quarkus-run.jar"
        scratch = request.home / "scratch"
        shutil.rmtree(scratch, ignore_errors=True)  # the registry leaves its files here when it ends
        scratch.mkdir(parents=True)
        request.data.mkdir(parents=True, exist_ok=True)
        settings = {**settings_for(port, scratch, request.data), **request.settings}
        properties = (f"-D{name}={value}" for name, value in settings.items())
        return ServerPlan(
            name=self.name,
            command=(str(java), *_JVM, *properties, "-jar", str(program)),
            address=f"http://{LOOPBACK}:{port}{CONFLUENT_API}",
            log=request.home / "server.log",
            data=request.data,
        )

    def answers(self, address: str) -> bool:
        """Whether the registry at ``address`` answers from its database."""
        return get_succeeds(f"{address}/subjects")


def settings_for(port: int, scratch: Path, data: Path) -> Mapping[str, str]:
    """Return `SETTINGS`, and the settings that differ from one registry to the next."""
    return {
        **SETTINGS,
        "quarkus.http.host": LOOPBACK,
        "quarkus.http.port": str(port),
        # A schema whose id a client knows must outlive a kill, so it is written at once, not after 0.5 s.
        "apicurio.datasource.url": f"jdbc:h2:file:{data}/registry;WRITE_DELAY=0",
        "java.io.tmpdir": str(scratch),
    }
