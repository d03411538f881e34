"""The two directories that outlive a command: downloads and what `up` started."""

from __future__ import annotations

import os
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parent.parent


def cache_dir() -> Path:
    """Where downloads are kept: ``$TIDEGATE_CACHE``, else under ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    if chosen := os.environ.get("TIDEGATE_CACHE"):
        return Path(chosen).expanduser()
    xdg = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(xdg).expanduser() / "tidegate"


def run_dir() -> Path:
    """Where `up` keeps its servers: ``$TIDEGATE_RUN``, else ``run/`` of the checkout."""
    if chosen := os.environ.get("TIDEGATE_RUN"):
        return Path(chosen).expanduser()
    return CHECKOUT / "run"
