"""Compares what is installed with what is pinned, and the bill of materials with both."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import distributions
from pathlib import Path
from typing import Final

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.utils import canonicalize_name

from supply import sbom
from supply.refusal import pip_takes
from supply.requirements import ALL, Pin, read

#: The package that every environment has, and the project itself.
_NOT_PINNED: Final = frozenset({"pip", "tidegate"})
#: A package of 11 KB without dependencies. With it the check tests that pip compares hashes.
_SMALL: Final = "six"


def findings(checkout: Path) -> Iterator[str]:
    """Yield what is wrong, a sentence each; nothing when all is as it should be."""
    pins = read(checkout / ALL)
    yield from differences(pins, installed())
    yield from _of_bill(checkout)
    yield from _of_pip(pins[_SMALL])


def installed() -> dict[str, str]:
    """Return the version of every package in this environment."""
    return {canonicalize_name(each.metadata["Name"]): each.version for each in distributions()}


def differences(pins: Mapping[str, Pin], found: Mapping[str, str]) -> Iterator[str]:
    """Yield where the packages ``found`` are not those that are pinned."""
    for name, pin in sorted(pins.items()):
        if not pin.hashes:
            yield f"{name} {pin.version} has no hash in {ALL}: run `make pins`."
        if (version := found.get(name)) is None:
            yield f"{name} {pin.version} is pinned in {ALL} and is not installed: run `make setup`."
        elif version != pin.version:
            yield f"{name} is installed in version {version}, and {ALL} pins {pin.version}: run `make setup`."
    for name in sorted(found.keys() - pins.keys() - _NOT_PINNED):
        yield f"{name} {found[name]} is installed, but not pinned in {ALL}: who asked for it?"


def _of_bill(checkout: Path) -> Iterator[str]:
    made = sbom.document(checkout)
    for error in JsonStrictValidator(SchemaVersion.V1_6).validate_str(made, all_errors=True) or ():
        yield f"The bill of materials does not follow CycloneDX 1.6: {error}"
    kept = checkout / sbom.SBOM_FILE.name
    if not kept.exists() or kept.read_text() != made:
        yield f"{kept.name} does not list what is pinned: run `make sbom`, look at what changed."


def _of_pip(pin: Pin) -> Iterator[str]:
    if not pip_takes(pin):
        yield f"pip does not take {pin.name} {pin.version} with the hashes of {ALL}: `make setup` shows why."
    if pip_takes(pin._replace(hashes=frozenset("sha256:" + "0" * 64 for _ in pin.hashes))):
        yield f"pip takes {pin.name} {pin.version} although no file of it has the hash that was asked for."
