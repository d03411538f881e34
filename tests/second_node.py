"""A second broker for the cluster of a single test, so that topics can have two replicas and lose one of
them."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stack.kafka import KafkaBroker
from stack.ports import LOOPBACK, choose_port
from stack.recipes.kafka_recipe import cluster_id

NODE_ID = 2


@contextmanager
def second_node(first: KafkaBroker) -> Iterator[KafkaBroker]:
    """Start a node of the cluster of ``first``, which is its controller too. It may be killed and started."""
    (voters,) = re.findall(
        r"controller\.quorum\.voters=(.*)", (first.log.parent / "server.properties").read_text()
    )
    (cluster,) = re.findall(r"cluster\.id=(.*)", (first.data / "meta.properties").read_text())
    port = choose_port()
    listener = f"PLAINTEXT://{LOOPBACK}:{port}"
    settings = {
        "process.roles": "broker",
        "node.id": str(NODE_ID),
        "controller.quorum.voters": voters,
        "listeners": listener,
        "advertised.listeners": listener,
    }
    with tempfile.TemporaryDirectory(prefix="tidegate-second-node-") as data:
        lines = ("version=1", f"node.id={NODE_ID}", f"cluster.id={cluster}", f"directory.id={cluster_id()}")
        (Path(data) / "meta.properties").write_text("".join(f"{line}\n" for line in lines))
        with KafkaBroker(port=port, data=Path(data), settings=settings) as node:
            yield node
