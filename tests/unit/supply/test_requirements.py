"""The pinned packages: one version in all files, hashes in those that pip installs from, no index in any."""

from __future__ import annotations

import tomllib
from itertools import chain
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from stack.places import CHECKOUT
from supply.errors import SupplyError
from supply.requirements import ALL, BUILD, DEMO, VERSIONS, WORKER, Pin, read
from tests.unit.supply.pins import versions

HASHED = (ALL, WORKER, DEMO, BUILD)
MAKEFILE = (CHECKOUT / "Makefile").read_text()


@pytest.mark.parametrize("name", HASHED)
def test_every_package_has_hashes_and_the_version_of_the_constraints(name: str) -> None:
    pins = read(CHECKOUT / name)
    assert pins
    assert [pin.name for pin in pins.values() if not pin.hashes] == []
    assert {pin.name: pin.version for pin in pins.values()}.items() <= {
        pin.name: pin.version for pin in versions().values()
    }.items()


def test_all_that_is_constrained_is_hashed() -> None:
    assert read(CHECKOUT / ALL).keys() == versions().keys()


def test_what_the_project_asks_for_is_pinned_within_its_bounds() -> None:
    project = tomllib.loads((CHECKOUT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"].values()
    asked = chain(project["build-system"]["requires"], project["project"]["dependencies"], *extras)
    for requirement in map(Requirement, asked):
        pin = versions()[canonicalize_name(requirement.name)]
        assert requirement.specifier.contains(pin.version), f"{requirement} and {pin.version}"


def test_the_build_backends_are_pinned() -> None:
    assert {"cython", "hatchling", "setuptools", "setuptools-scm"} <= read(CHECKOUT / BUILD).keys()


@pytest.mark.parametrize("name", [VERSIONS, *HASHED])
def test_no_index_and_no_address_is_named(name: str) -> None:
    text = (CHECKOUT / name).read_text()
    assert "index" not in text
    assert "//" not in text


@pytest.mark.parametrize(("stamp", "name"), [("STAMP", ALL), ("DEMO_STAMP", DEMO)])
def test_make_installs_with_hashes_and_builds_with_nothing_else(stamp: str, name: str) -> None:
    _, recipe = MAKEFILE.split(f"\n$({stamp}): pyproject.toml {BUILD} {name}\n")
    installs = [line for line in recipe.split("\n\n")[0].splitlines() if line.startswith("\t$(INSTALL)")]
    *packages, project = installs
    assert [line.split()[-2:] for line in packages] == [["-r", BUILD], ["-r", name]]
    assert all("$(HASHED)" in line for line in packages)
    (hashed,) = (line for line in MAKEFILE.splitlines() if line.startswith("HASHED :="))
    assert {"--require-hashes", "--only-binary", "--no-build-isolation"} <= set(hashed.split())
    assert {"--no-deps", "--no-build-isolation"} <= set(project.split())


def test_nothing_is_installed_elsewhere() -> None:
    assert MAKEFILE.count("\t$(INSTALL)") == 6


def test_the_demo_installs_neither_spark_nor_what_checks_the_code() -> None:
    assert not {"pyspark", "pyarrow", "mypy", "ruff", "pytest", "matplotlib"} & read(CHECKOUT / DEMO).keys()


def test_ci_checks_what_is_installed() -> None:
    assert "make lint types supply" in (CHECKOUT / ".ci" / "run").read_text()


@pytest.mark.parametrize("line", ["six", "six>=1.17", "six==1.*", "six==1.17,<2"])
def test_a_line_without_one_version_is_refused(tmp_path: Path, line: str) -> None:
    file = tmp_path / "pins.txt"
    file.write_text(f"# a comment\n{line}\n")
    with pytest.raises(SupplyError, match="names no single version of six"):
        read(file)


def test_hashes_are_read_over_several_lines(tmp_path: Path) -> None:
    file = tmp_path / "pins.txt"
    one, two = ("sha256:" + digit * 64 for digit in "1a")
    file.write_text(f"Six_x==1.17.0 \\\n    --hash={one} \\\n    --hash={two}\n")
    (pin,) = read(file).values()
    assert pin == Pin("six-x", "1.17.0", frozenset({one, two}))
