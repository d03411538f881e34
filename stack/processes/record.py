"""The record that `up` writes of a server, for `status` and `down`."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

from stack.errors import StackError
from stack.private import write_private
from stack.processes.identity import ProcessIdentity


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One server that `up` started.

    Attributes:
        name: the name of its recipe.
        process: the server's process.
        address: the address for clients.
        log, data: its log file and data directory.
        started_at: the wall clock at its start, in seconds since the epoch.
        stop_signal: the signal that asks it for an orderly end.
        settings: the settings that it was started with, besides those of its recipe. None if an earlier
            version started it: that version did not record them.
    """

    name: str
    process: ProcessIdentity
    address: str
    log: Path
    data: Path
    started_at: float
    stop_signal: signal.Signals = signal.SIGTERM
    settings: Mapping[str, str] | None = None

    @classmethod
    def load(cls, path: Path) -> Self | None:
        """Read the record at ``path``. Returns None if there is none.

        Raises:
            StackError: the file is not a record.
        """
        try:
            fields = json.loads(path.read_text())
            process = ProcessIdentity(**fields.pop("process"))
            log, data = Path(fields.pop("log")), Path(fields.pop("data"))
            stop_signal = signal.Signals(fields.pop("stop_signal", signal.SIGTERM))
            return cls(process=process, log=log, data=data, stop_signal=stop_signal, **fields)
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise StackError(
                f"{path} is not a record of a running server ({error}). If it was left by another version, "
                "stop that server by hand and delete the file."
            ) from error

    def save(self, path: Path) -> None:
        """Write it in one piece: a reader sees the old record or the new one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        # Addresses and settings hold passwords.
        write_private(partial, json.dumps(asdict(self), default=str, indent=1))
        os.replace(partial, path)
