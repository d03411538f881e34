"""The parts of the bill of materials: Python packages, jars, archives and data."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, metadata
from typing import Final

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import HashAlgorithm, HashType, Property
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.model.license import License
from packageurl import PackageURL

from sim import nycflights
from stack.coordinate import ARCHIVE_TYPE, Coordinate
from stack.pinned import Pinned
from supply.requirements import Pin

_USED_BY: Final = "tidegate:used-by"
_LONGEST_LICENSE: Final = 80  # a longer text is the license itself, not its name


def python_package(pin: Pin) -> Component:
    """Return a package of a pinned version; its license is what the installed package says."""
    url = PackageURL("pypi", None, pin.name, pin.version)
    return Component(
        name=pin.name,
        version=pin.version,
        type=ComponentType.LIBRARY,
        purl=url,
        bom_ref=url.to_string(),
        licenses=_licenses(pin.name),
    )


def jars(pinned: Pinned) -> Iterator[Component]:
    """Yield every jar once, with the sets that it is in."""
    users: dict[Coordinate, list[str]] = {}
    for label, members in pinned.jars.items():
        for coordinate in members:
            users.setdefault(coordinate, []).append(label)
    digests = {
        coordinate: digest for members in pinned.jars.values() for coordinate, digest in members.items()
    }
    for coordinate, labels in sorted(users.items()):
        yield _maven(coordinate, digests[coordinate], {}, labels)


def archives(pinned: Pinned) -> Iterator[Component]:
    """Yield the archives of whole programs; what is inside of them is not listed."""
    for name, digest in pinned.archives.items():
        *coordinate, _, classifier = name.split(":")
        yield _maven(
            Coordinate(*coordinate), digest, {"type": ARCHIVE_TYPE, "classifier": classifier}, ["stack"]
        )


def data() -> Component:
    """Return the flights that the simulated store replays: an archive that is read and never installed."""
    url = PackageURL("pypi", None, nycflights.PACKAGE, nycflights.VERSION)
    return Component(
        name=nycflights.PACKAGE,
        version=nycflights.VERSION,
        type=ComponentType.DATA,
        purl=url,
        bom_ref=url.to_string(),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=nycflights.SHA256)],
    )


def _maven(coordinate: Coordinate, digest: str, qualifiers: dict[str, str], users: list[str]) -> Component:
    url = PackageURL("maven", coordinate.group, coordinate.artifact, coordinate.version, qualifiers)
    return Component(
        group=coordinate.group,
        name=coordinate.artifact,
        version=coordinate.version,
        type=ComponentType.LIBRARY,
        purl=url,
        bom_ref=url.to_string(),
        hashes=[HashType(alg=HashAlgorithm.SHA_256, content=digest)],
        properties=[Property(name=_USED_BY, value=user) for user in users],
    )


def _licenses(name: str) -> list[License]:
    try:
        said = metadata(name)
    except PackageNotFoundError:  # `make supply` says that it is missing
        return []
    expression = str(said.json.get("license_expression") or said.json.get("license") or "")
    if expression and "\n" not in expression and len(expression) <= _LONGEST_LICENSE:
        return [LicenseFactory().make_from_string(expression)]
    classifiers = (line for line in said.get_all("Classifier") or () if line.startswith("License ::"))
    return [LicenseFactory().make_from_string(line.rpartition(" :: ")[2]) for line in classifiers]
