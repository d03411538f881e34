"""The parts of tidegate that are run from a checkout or the image and are not in the wheel."""

from __future__ import annotations

import importlib
from typing import Any, Final

from tidegate.errors import SettingsError

_TREE: Final = frozenset({"agents", "app", "pipeline", "schemas", "sim", "stack", "tables"})
#: Packages of the extra ``spark``; those of others are of ``worker``.
_SPARK: Final = frozenset({"deltalake", "pandas", "pyarrow", "pyspark"})


def service_module(name: str) -> Any:
    """Import a module of the service tree.

    Raises ``SettingsError`` that says what to do where the tree, or a package that it needs, is not there.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in _TREE:
            raise SettingsError(
                f"This command needs tidegate's service tree ({missing}/), which is not installed with the"
                " package: run it in a checkout after `make setup`, or in the image."
            ) from None
        extra = "spark" if missing in _SPARK else "worker"
        raise SettingsError(
            f"This command needs the package {missing}: install tidegate with the extra that has it,"
            f" `pip install 'tidegate[{extra}]'`."
        ) from None
