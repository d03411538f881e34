"""A server that lives no longer than the process that started it."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from stack.errors import ServerFailed
from stack.ports import shown_address
from stack.processes.child import Child
from stack.processes.launch import launch
from stack.processes.server import Recipe, Request


class OwnedServer:
    """A server of this process. `close` stops it, and its leash kills it if this process is killed.

    It can be stopped and started again on the same port and data. It can be frozen and killed. Tests in which
    a server is away need that. If a server is killed together with its owner, its temporary directory stays.

    Attributes:
        address: the address for clients, by its recipe; the same after every start.
        log: the file with the server's output.
        data: its data directory.
    """

    def __init__(
        self,
        recipe: Recipe,
        *,
        port: int | None = None,
        data: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare a server without starting it.

        Args:
            recipe: how it is made.
            port: for clients; any free one by default.
            data: directory to keep; by default a temporary one that `close` removes.
            settings: settings of the server itself that override the recipe's.

        Raises:
            StackError: one of the kinds in ``stack/errors.py``.
        """
        self._recipe = recipe
        self._child: Child | None = None
        self._home = Path(tempfile.mkdtemp(prefix=f"tidegate-{recipe.name}-"))
        try:
            where = data.resolve() if data is not None else self._home / "data"
            self._plan = recipe.plan(Request(self._home, where, port, settings or {}))
        except BaseException:
            self.close()
            raise
        self.address = self._plan.address
        self.log = self._plan.log
        self.data = self._plan.data

    def start(self) -> Self:
        """Start it, or start it again. Returns when it answers. Does nothing if it runs.

        Raises:
            ServerFailed: it ended or did not answer in time.
        """
        if self._child is None or self._child.exit_status is not None:
            self._child = launch(self._recipe, self._plan, leashed=True)
        return self

    def stop(self) -> None:
        """End it in an orderly way. Its data stay for the next `start`."""
        if self._child is not None:
            self._child.stop()
            self._child = None

    def kill(self) -> None:
        """End it as a crash would. Its data stay for the next `start`."""
        if self._child is not None:
            self._child.kill()
            self._child = None

    def pause(self) -> None:
        """Freeze the running server: clients keep their connections and get no answers."""
        self._running().pause()

    def resume(self) -> None:
        """Let a frozen server go on."""
        self._running().resume()

    @property
    def pid(self) -> int:
        """Process id of the running server."""
        return self._running().pid

    def close(self) -> None:
        """Stop it and remove its temporary directory (never a data directory that was given)."""
        self.stop()
        shutil.rmtree(self._home, ignore_errors=True)

    def __enter__(self) -> Self:
        try:
            return self.start()
        except BaseException:
            self.close()
            raise

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _running(self) -> Child:
        if self._child is None:
            raise ServerFailed(
                f"The {self._recipe.name} of {shown_address(self.address)} is not running; start() it first."
            )
        return self._child
