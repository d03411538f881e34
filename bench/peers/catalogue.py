"""Every peer: what it is, how it keeps its state, and what it does not do that tidegate does."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Final, NamedTuple

from bench.peers.environments import Program, kafka_streams, python_with
from bench.peers.pins import BYTEWAX, KAFKA_STREAMS, QUIX, PeerPackages
from stack.places import CHECKOUT
from supply.requirements import read

#: What no peer does. Each peer is given rows that tidegate has already taken from the log.
NO_PEER_DOES: Final = (
    "no log of ranges (intents, splits, merges, rows in the database's own bytes), no resolved timestamps, "
    "no transactions over ranges, no rows that are recognised when they come again"
)


class Peer(NamedTuple):
    """One peer.

    Attributes:
        name: as it stands in the tables.
        version: of what is installed.
        state: where it keeps the newest row of each key.
        does_not: what it leaves out besides ``NO_PEER_DOES``, as it is run here.
        copies: whether it copies finished rows. The others make them from rows without the row before.
        program: returns the command that starts it, given a directory for files. Raises ``TidegateError``
            where it cannot.
    """

    name: str
    version: str
    state: str
    does_not: str
    copies: bool
    program: Callable[[Path], Program]


def _module(name: str, *arguments: str) -> Callable[[Path], Program]:
    """Return a function that gives the command for a module of the bench, with tidegate's own packages: the
    peer is one of these packages."""
    return lambda _: Program(Path(sys.executable), ("-m", f"bench.peers.{name}", *arguments))


def _module_with(packages: PeerPackages, name: str) -> Callable[[Path], Program]:
    return lambda _: Program(python_with(packages), ("-m", f"bench.peers.{name}"))


def _pinned(packages: PeerPackages) -> str:
    return read(CHECKOUT / packages.file)[packages.name].version


PEERS: Final = (
    Peer(
        name="stock Faust",
        version=version("faust-streaming"),
        state="in memory, changelog topic",
        does_not="state and offsets are not kept together: after a crash a row can be its own row before",
        copies=False,
        program=_module("faust_peer", "worker", "-l", "warn", "--without-web"),
    ),
    Peer(
        name="Quix Streams",
        version=_pinned(QUIX),
        state="RocksDB, changelog topic",
        does_not="rows since the last commit come again after a crash",
        copies=False,
        program=_module_with(QUIX, "quix_peer"),
    ),
    Peer(
        name="Bytewax",
        version=_pinned(BYTEWAX),
        state="in memory, a snapshot in SQLite every 10 s",
        does_not="no consumer group; rows since the last snapshot come again after a crash",
        copies=False,
        program=_module_with(BYTEWAX, "bytewax_peer"),
    ),
    Peer(
        name="Kafka Streams",
        version=KAFKA_STREAMS.roots[0].version,
        state="RocksDB behind a cache, changelog topic",
        does_not=(
            "state and offsets are not kept together: after a crash a row can be its own row before (its "
            "exactly-once mode keeps them together)"
        ),
        copies=False,
        program=kafka_streams,
    ),
    Peer(
        name="raw copy, confluent-kafka",
        version=version("confluent-kafka"),
        state="none",
        does_not="no state, no change of records, no commits of offsets",
        copies=True,
        program=_module("confluent_copy"),
    ),
    Peer(
        name="raw copy, aiokafka",
        version=version("aiokafka"),
        state="none",
        does_not="no state, no change of records, no commits of offsets",
        copies=True,
        program=_module("aiokafka_copy"),
    ),
)
