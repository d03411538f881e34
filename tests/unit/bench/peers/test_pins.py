"""Peers are installed with hashes for everything, from no index, and not from tidegate's own pins."""

from __future__ import annotations

import pytest

from bench.peers.pins import KAFKA_STREAMS, PACKAGES, PeerPackages, pinned_jars
from stack.places import CHECKOUT
from supply.requirements import ALL, read

_MAKEFILE = (CHECKOUT / "Makefile").read_text()


@pytest.mark.parametrize("packages", PACKAGES, ids=lambda packages: packages.name)
def test_every_package_has_hashes_and_no_address_is_named(packages: PeerPackages) -> None:
    pins = read(CHECKOUT / packages.file)
    assert packages.name in pins
    assert [pin.name for pin in pins.values() if not pin.hashes] == []
    text = (CHECKOUT / packages.file).read_text()
    assert "index" not in text
    assert "//" not in text


def test_the_jars_of_kafka_streams_have_hashes() -> None:
    jars = pinned_jars().jars_of(KAFKA_STREAMS.label, KAFKA_STREAMS.roots)
    assert all(len(digest) == 64 for digest in jars.values())


def test_peers_are_no_dependencies() -> None:
    assert not {packages.name for packages in PACKAGES} & read(CHECKOUT / ALL).keys()
    bill = (CHECKOUT / "sbom.cdx.json").read_text()
    assert not any(name in bill for name in ("quixstreams", "bytewax", "kafka-streams"))


def test_make_pins_writes_them() -> None:
    recipe = _MAKEFILE.partition("\npins: ")[2].partition("\n\n")[0]
    assert "\t$(BIN)/python -m bench.peers.pins" in recipe.splitlines()
