"""The public surface: what a package re-exports is listed, sorted, there, and all that leaks out of it."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType
from typing import Final

import pytest

import tidegate
from tidegate import rows

_SHELLS: Final = ("tidegate.cli",)  # a program, not a library: its surface is its commands


def packages() -> list[ModuleType]:
    """All packages of the library."""
    inner = [
        importlib.import_module(f"tidegate.{module.name}")
        for module in pkgutil.iter_modules(tidegate.__path__)
        if module.ispkg
    ]
    return [tidegate, *(package for package in inner if package.__name__ not in _SHELLS)]


def public_names(package: ModuleType) -> set[str]:
    """The names that a package's ``__init__`` made or imported; its modules are there by being imported."""
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    return {
        name
        for name, value in vars(package).items()
        if not name.startswith("_") and not (name in modules and isinstance(value, ModuleType))
    } - {"annotations"}


@pytest.mark.parametrize("package", packages(), ids=lambda package: package.__name__)
def test_every_public_name_is_listed_and_nothing_else(package: ModuleType) -> None:
    assert public_names(package) == set(getattr(package, "__all__", ()))


@pytest.mark.parametrize("package", packages(), ids=lambda package: package.__name__)
def test_the_list_is_sorted_without_repeats(package: ModuleType) -> None:
    listed = list(getattr(package, "__all__", ()))
    assert listed == sorted(set(listed))


@pytest.mark.parametrize("package", packages(), ids=lambda package: package.__name__)
def test_no_exported_name_hides_a_module(package: ModuleType) -> None:
    """``from tidegate.x import tail`` must not depend on what was imported before."""
    modules = {module.name for module in pkgutil.iter_modules(package.__path__)}
    assert not modules & set(getattr(package, "__all__", ()))


def test_what_users_begin_with_is_exported() -> None:
    from tidegate.client import Jobs, KafkaConnection, OutputTopics
    from tidegate.verify import Verdict, audit

    assert all((Jobs, KafkaConnection, OutputTopics, Verdict, audit))


def test_exported_names_exist_and_are_sorted() -> None:
    assert rows.__all__ == sorted(rows.__all__)
    assert all(hasattr(rows, name) for name in rows.__all__)
