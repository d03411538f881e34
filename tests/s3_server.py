"""A server with S3's interface for tests: moto's, as a process that can be frozen and killed. It keeps
everything in memory: when it is killed, its buckets are lost.
"""

from __future__ import annotations

import sys
import urllib.request
from typing import Final

from stack.ports import LOOPBACK, choose_port
from stack.processes.owned import OwnedServer
from stack.processes.server import Request, ServerPlan
from tidegate.spark.platform.store_access import StoreAccess

BUCKET: Final = "bucket"
KEY: Final = "test"
SECRET: Final = "hush-hush"
_PROGRAM: Final = "from moto.server import main; main()"


class S3Recipe:
    """The recipe by which moto's server is started. Its address is a URL."""

    name = "s3"

    def plan(self, request: Request) -> ServerPlan:
        """Choose a port. Nothing is kept in files."""
        port = choose_port(request.port)
        return ServerPlan(
            name=self.name,
            command=(sys.executable, "-c", _PROGRAM, "-H", LOOPBACK, "-p", str(port)),
            address=f"http://{LOOPBACK}:{port}",
            log=request.home / "server.log",
            data=request.data,
        )

    def answers(self, address: str) -> bool:
        """Whether the server answers."""
        try:
            with urllib.request.urlopen(f"{address}/moto-api/", timeout=2) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


def s3_server() -> OwnedServer:
    """Return a server. It is not started yet, and has no bucket when it has started."""
    return OwnedServer(S3Recipe())


def make_bucket(address: str) -> None:
    """Make the bucket of tests."""
    login = f"AWS4-HMAC-SHA256 Credential={KEY}/20200101/us-east-1/s3/aws4_request"
    request = urllib.request.Request(f"{address}/{BUCKET}", method="PUT", headers={"Authorization": login})
    urllib.request.urlopen(request, timeout=5).close()


def access_to(address: str, silent: str = "2s") -> StoreAccess:
    """Return how to reach the server. A call fails if the server is silent for so long."""
    return StoreAccess.of({f"spark.hadoop.{name}": value for name, value in properties(address, silent)}, {})


def properties(address: str, silent: str = "2s") -> list[tuple[str, str]]:
    """Return Hadoop's properties by which it reaches the server."""
    return [
        ("fs.s3a.endpoint", address),
        ("fs.s3a.endpoint.region", "us-east-1"),
        ("fs.s3a.access.key", KEY),
        ("fs.s3a.secret.key", SECRET),
        ("fs.s3a.connection.timeout", silent),
    ]
