"""Write what the peers are installed from: ``python -m bench.peers.pins``, which `make pins` runs.

Peers are no dependencies of tidegate. Their packages and jars are in files of their own, with hashes, and not
in the bill of materials. They are installed for a measurement alone, into environments of their own.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Final, NamedTuple

from stack.coordinate import Coordinate
from stack.downloads.jars import JarSet
from stack.pinned import Pinned, parse
from stack.places import CHECKOUT
from supply import stack_pins
from supply.requirements import pin_packages
from tidegate.errors import TidegateError

_PLACE: Final = Path(__file__).parent.relative_to(CHECKOUT)
_JARS_FILE: Final = CHECKOUT / _PLACE / "pinned.toml"
_JARS_HEAD: Final = "# Every jar of the peers in Java, with its SHA-256. Made by `make pins`.\n"


class PeerPackages(NamedTuple):
    """The packages of a peer in Python.

    Attributes:
        name: the peer's own package.
        asked: what is asked for, a line each.
        platform: the machine that wheels must fit, as uv names it.
    """

    name: str
    asked: str
    platform: str = "x86_64-unknown-linux-gnu"

    @property
    def file(self) -> str:
        """The requirements with hashes, by their path in the checkout."""
        return f"{_PLACE}/requirements/{self.name}.txt"


QUIX: Final = PeerPackages("quixstreams", "quixstreams\n")
#: Bytewax's wheels since 0.20 ask for glibc 2.31. Of the packages of its extra for Kafka it needs the client
#: alone.
BYTEWAX: Final = PeerPackages("bytewax", "bytewax>=0.20\nconfluent-kafka\n", "x86_64-manylinux_2_31")
PACKAGES: Final = (QUIX, BYTEWAX)
KAFKA_STREAMS: Final = JarSet("kafka-streams", (Coordinate("org.apache.kafka", "kafka-streams", "4.1.0"),))


def pinned_jars() -> Pinned:
    """Return the SHA-256 of each jar."""
    return parse(_JARS_FILE.read_text())


def write() -> None:
    """Write all files. Versions of packages stay unless a file is removed before.

    Raises:
        TidegateError: uv or Maven failed; the message says why.
    """
    for packages in PACKAGES:
        options = {"asked": packages.asked, "platform": packages.platform}
        pin_packages(CHECKOUT, packages.file, "-", "--generate-hashes", **options)
    _JARS_FILE.write_text(stack_pins.text_of(stack_pins.pins_of((KAFKA_STREAMS,)), _JARS_HEAD))


if __name__ == "__main__":
    try:
        write()
    except TidegateError as error:
        sys.exit(f"Error: {error}")
