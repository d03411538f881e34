"""The mirror between the tree and its unit tests: which test file belongs to a module, and the other way.

The tests of ``tidegate/ranges/resolver.py`` are ``tests/unit/ranges/test_resolver.py``; those of
``app/logs.py`` are ``tests/unit/app/test_logs.py``. Paths are relative to the root of a checkout.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

UNIT: Final = Path("tests/unit")
_PACKAGE: Final = "tidegate"


def package_of(root: Path, folder: Path) -> Path | None:
    """The folder of the product that this one below ``tests/unit`` mirrors: ``tidegate/`` is left out."""
    return next((found for found in (root / _PACKAGE / folder, root / folder) if found.is_dir()), None)


def has_module(root: Path, file: Path) -> bool:
    """Whether this test file below ``tests/unit`` has the name and the place of a module."""
    package = package_of(root, file.parent)
    return package is not None and (package / f"{file.stem.removeprefix('test_')}.py").is_file()


def mirror_of(module: Path) -> Path:
    """The only file that can be the tests of this module; it need not be there."""
    below = module.relative_to(_PACKAGE) if module.parts[0] == _PACKAGE else module
    return UNIT / below.with_name(f"test_{below.name}")
