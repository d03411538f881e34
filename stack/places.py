"""The two directories that outlive a command: downloads and what `up` started."""

from __future__ import annotations

import os
from pathlib import Path

#: The checkout. Where the stack runs from an installed wheel there is none, and this is the directory that
#: carries it.
CHECKOUT = Path(__file__).resolve().parent.parent


def cache_dir() -> Path:
    """Where downloads are kept: ``$TIDEGATE_CACHE``, else under ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    if chosen := os.environ.get("TIDEGATE_CACHE"):
        return Path(chosen).expanduser()
    xdg = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(xdg).expanduser() / "tidegate"


def run_dir() -> Path:
    """Where `up` keeps its servers: ``$TIDEGATE_RUN``, else ``run/`` of the checkout.

    Without a checkout it is ``tidegate/run`` under ``$XDG_STATE_HOME`` or ``~/.local/state``: one for all
    environments of a user.
    """
    if chosen := os.environ.get("TIDEGATE_RUN"):
        return Path(chosen).expanduser()
    if (CHECKOUT / "pyproject.toml").is_file():
        return CHECKOUT / "run"
    xdg = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return Path(xdg).expanduser() / "tidegate" / "run"
