"""Runs Maven or Ivy. If it fails, the error is a sentence with the end of the tool's output."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

from stack.errors import DownloadFailed, last_lines

_DOWNLOAD_TIMEOUT_S = 1800  # 160 MB for the largest, the schema registry: enough at 1 Mbit/s


def run_tool(name: str, command: Sequence[str | Path], cwd: Path) -> None:
    """Run ``command`` to its end.

    Raises:
        DownloadFailed: it cannot be run, fails, or takes longer than 30 minutes.
    """
    try:
        done = subprocess.run(  # noqa: S603 - a tool of the user's environment, with arguments of ours
            command,
            cwd=cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            timeout=_DOWNLOAD_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired as late:
        raise DownloadFailed(
            f"{name} did not finish within {_DOWNLOAD_TIMEOUT_S} s and was stopped; "
            "check the network and try again."
        ) from late
    except OSError as refused:
        raise DownloadFailed(f"{name} ({command[0]}) cannot be run: {refused}.") from refused
    if done.returncode:
        raise DownloadFailed(
            f"{name} ended with status {done.returncode}; check the network and {name}'s own settings, then "
            f"try again. The end of its output:\n{last_lines(done.stdout)}"
        )
