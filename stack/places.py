"""The two directories that outlive a command: one for downloads, one for servers that `up` started."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stack.errors import StackError

#: The checkout. If the stack runs from an installed wheel, it is the directory with the package ``stack``.
CHECKOUT = Path(__file__).resolve().parent.parent


def cache_dir() -> Path:
    """Return the directory of downloads: ``$TIDEGATE_CACHE``, else ``tidegate`` in the XDG cache or
    ``~/.cache``.
    """
    if chosen := os.environ.get("TIDEGATE_CACHE"):
        return _expanded(chosen)
    xdg = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return _expanded(xdg) / "tidegate"


def run_dir() -> Path:
    """Return the directory in which `up` keeps its servers: ``$TIDEGATE_RUN``, else ``run/`` of the checkout.

    Without a checkout it is ``tidegate/run`` in ``$XDG_STATE_HOME`` or ``~/.local/state``. All environments
    of a user share that one.
    """
    if chosen := os.environ.get("TIDEGATE_RUN"):
        return _expanded(chosen)
    if (CHECKOUT / "pyproject.toml").is_file():
        return CHECKOUT / "run"
    xdg = os.environ.get("XDG_STATE_HOME") or "~/.local/state"
    return _expanded(xdg) / "tidegate" / "run"


@contextmanager
def naming_what_cannot_be_used() -> Iterator[None]:
    """Turn an error of the system inside the block into a ``StackError`` that names the file or directory."""
    try:
        yield
    except OSError as error:
        place = error.filename if isinstance(error.filename, str | os.PathLike) else run_dir()
        raise StackError(
            f"The stack cannot use {os.fspath(place)}: {error.strerror or error}. Its directories are chosen "
            "by --data, $TIDEGATE_RUN and $TIDEGATE_CACHE."
        ) from error


def _expanded(path: str) -> Path:
    try:
        return Path(path).expanduser()
    except RuntimeError as error:  # `~name` without such a user, or `~` without a home
        raise StackError(f"The stack cannot use {path}: {error} Name another place.") from error
