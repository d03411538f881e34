"""The two directories that outlive a command: one for downloads, one for servers that `up` started."""

from __future__ import annotations

import os
from pathlib import Path

#: The checkout. If the stack runs from an installed wheel, this is the directory in the wheel that has it.
CHECKOUT = Path(__file__).resolve().parent.parent


def cache_dir() -> Path:
    """Return the directory of downloads: ``$TIDEGATE_CACHE``, else ``tidegate`` in the XDG cache or
    ``~/.cache``.
    """
    if chosen := os.environ.get("TIDEGATE_CACHE"):
        return Path(chosen).expanduser()
    xdg = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(xdg).expanduser() / "tidegate"


def run_dir() -> Path:
    """Return the directory in which `up` keeps its servers: ``$TIDEGATE_RUN``, else ``run/`` of the checkout.

    Without a checkout it is ``tidegate/run`` in ``$XDG_STATE_HOME`` or ``~/.local/state``. All environments
    of a user share that one.
    """
    if chosen := os.environ.get("TIDEGATE_RUN"):
        return Path(chosen).expanduser()
    if (CHECKOUT / "pyproject.toml").is_file():
        return CHECKOUT / "run"
    xdg = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(xdg).expanduser() / "tidegate" / "run"
