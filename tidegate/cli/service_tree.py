"""The service tree: the packages that commands run and whose names are too common for site-packages.

They are the Faust application (``app``, ``agents``, ``tables``, ``schemas``), the Spark jobs (``pipeline``),
the simulated range store (``sim``) and the servers for development (``stack``). In a checkout they stand
beside ``tidegate/``, so whatever can import tidegate can import them. An editable install is the same.

The wheel carries them in ``tidegate/service/``. A command that needs one of them puts this directory at the
front of ``sys.path``. A process that ``multiprocessing`` forks or spawns inherits the path, and no command
starts ``python -m`` with a name of the tree. A program that imports tidegate as a library sees none of these
names.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any, Final

from tidegate.errors import SettingsError

_TREE: Final = frozenset({"agents", "app", "pipeline", "schemas", "sim", "stack", "tables"})
#: The directory in which the wheel has them. A checkout has no such directory.
_CARRIED: Final = Path(__file__).absolute().parents[1] / "service"
#: Packages of the extra ``spark``. All others are in the extra ``worker``.
_SPARK: Final = frozenset({"deltalake", "pandas", "pyarrow", "pyspark"})


def service_module(name: str) -> Any:
    """Import a module of the service tree, or one that needs the packages of an extra.

    Raises ``SettingsError``, which says what to do, if the tree or a package that it needs is missing.
    """
    if name.partition(".")[0] in _TREE:
        _make_importable()
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if missing in _TREE:
            raise SettingsError(
                f"This command needs tidegate's service tree, and {missing}/ of it is not here: a part of the"
                " package was copied. Install the whole wheel, or run the command in a checkout after `make"
                " setup`."
            ) from None
        extra = "spark" if missing in _SPARK else "worker"
        raise SettingsError(
            f"This command needs the package {missing}: install tidegate with the extra that has it,"
            f" `pip install 'tidegate[{extra}]'`."
        ) from None


def _make_importable() -> None:
    """Put the wheel's tree before site-packages, where another package may be called ``tables``."""
    if _CARRIED.is_dir() and str(_CARRIED) not in sys.path:
        sys.path.insert(0, str(_CARRIED))
