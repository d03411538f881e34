"""Options of commands that open subscriptions: what becomes of rows that wait for other partitions."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final

import click

from tidegate.client.subscribe import SpillSettings

_MIB: Final = 1 << 20


def spill_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command ``--spill-above`` and ``--spill-directory``, as its parameter ``spill``."""

    @wraps(command)
    def with_spill(*args: Any, spill_above: int, spill_directory: Path | None, **others: Any) -> Any:
        return command(*args, spill=SpillSettings(spill_above * _MIB, spill_directory), **others)

    directory = click.option(
        "--spill-directory",
        type=click.Path(file_okay=False, path_type=Path),
        help="Directory for waiting rows, in files without names. [default: that for temporary files]",
    )
    above = click.option(
        "--spill-above",
        type=click.IntRange(min=0),
        default=SpillSettings().memory_bytes // _MIB,
        show_default=True,
        metavar="MIB",
        help="Memory for a subscription's rows that wait. Rows beyond it go to disk.",
    )
    return above(directory(with_spill))
