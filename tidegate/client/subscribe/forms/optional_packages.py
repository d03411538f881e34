"""Packages that only some forms need: they are in extras, and imported when a form is asked for."""

from __future__ import annotations

import importlib
from typing import Any

from tidegate.errors import SettingsError


def optional_package(name: str, extra: str, form: str) -> Any:
    """Import a package. Raises ``SettingsError`` with the extra to install where it is absent."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise SettingsError(
            f"A batch as {form} needs {error.name}, which is not installed: pip install 'tidegate[{extra}]'"
        ) from None
