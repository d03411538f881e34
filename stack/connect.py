"""A Kafka Connect worker that lives no longer than the process that started it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any, Self

from stack.errors import ConnectorFailed
from stack.processes.owned import OwnedServer
from stack.recipes.connect_recipe import Connect
from stack.rest import HttpAnswer, call

_RUNNING_BOUND_S = 60.0
_POLL_S = 0.1
_SHOWN_REASONS = 12


class ConnectWorker(OwnedServer):
    """A standalone worker of this process, with the connectors that were given to it.

    A standalone worker forgets its connectors when it ends. `start` gives them to it again.

    Attributes:
        url: the URL of its REST API; the same after every start.
    """

    def __init__(
        self,
        bootstrap: str,
        *,
        port: int | None = None,
        data: Path | None = None,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        """Prepare a worker for the broker at ``bootstrap``; ``settings`` are worker properties.

        Raises:
            StackError: one of the kinds in ``stack/errors.py``.
        """
        broker = {"bootstrap.servers": bootstrap}
        super().__init__(Connect(), port=port, data=data, settings={**(settings or {}), **broker})
        self.url = self.address
        self._connectors: dict[str, dict[str, str]] = {}

    def start(self) -> Self:
        """Start it, or start it again with the connectors that it had. Does nothing if it runs.

        Raises:
            ServerFailed: it ended or did not answer in time.
            ConnectorFailed: it refuses a connector that it had, or does not answer.
        """
        super().start()
        for name, configuration in self._connectors.items():
            self._configure(name, configuration)
        return self

    def put(self, name: str, configuration: Mapping[str, str]) -> None:
        """Create the connector ``name``, or change its configuration. Returns when it and a task run.

        Raises:
            ConnectorFailed: Connect refused the configuration or did not answer, or the connector or a task
                failed, or they did not run within 60 s.
        """
        self._configure(name, configuration)
        self._connectors[name] = dict(configuration)
        self.await_running(name)

    def delete(self, name: str) -> None:
        """End the connector ``name``.

        Raises:
            ConnectorFailed: there is none, or Connect did not answer.
        """
        self._connectors.pop(name, None)
        self._ask("DELETE", name)

    def restart(self, name: str) -> None:
        """Let the connector ``name`` go on after it or a task failed. Returns when it and a task run.

        Raises:
            ConnectorFailed: there is none, or Connect did not answer, or it failed again, or it did not run
                within 60 s.
        """
        self._ask("POST", f"{name}/restart?includeTasks=true&onlyFailed=true")
        self.await_running(name)

    def await_running(self, name: str) -> None:
        """Wait until the connector ``name`` and at least one task of it run, and no task has failed.

        Raises:
            ConnectorFailed: it or a task failed, or Connect did not answer, or it did not run within 60 s.
        """
        deadline = time.monotonic() + _RUNNING_BOUND_S
        while (states := self.states(name)) != {"RUNNING"}:
            if time.monotonic() >= deadline:
                raise ConnectorFailed(
                    f"The connector {name} did not run within {_RUNNING_BOUND_S:.0f} s; it is "
                    f"{' and '.join(sorted(states)) or 'without a task'}. Its worker's log is {self.log}."
                )
            time.sleep(_POLL_S)

    def states(self, name: str) -> set[str]:
        """Return the states of the connector ``name`` and its tasks, such as RUNNING. Return an empty set
        while it has no task, or while Connect does not know it yet.

        Raises:
            ConnectorFailed: it or a task failed, and the reasons that Connect gives are in the message; or
                Connect did not answer.
        """
        answer = self._call("GET", f"{name}/status")
        if answer.status != 200:
            return set()  # Connect knows a connector only a moment after it was created
        status: dict[str, Any] = answer.body
        for part in (status["connector"], *status["tasks"]):
            if part["state"] == "FAILED":
                raise ConnectorFailed(
                    f"{_part(name, part)} broke off. Correct its configuration and put it again, or "
                    f"remove the cause and restart it. Connect's reasons:\n{reasons(part.get('trace', ''))}"
                )
        return (
            {part["state"] for part in (status["connector"], *status["tasks"])} if status["tasks"] else set()
        )

    def _configure(self, name: str, configuration: Mapping[str, str]) -> None:
        self._ask("PUT", f"{name}/config", dict(configuration))

    def _ask(self, method: str, what: str, body: object = None) -> None:
        answer = self._call(method, what, body)
        if answer.status >= 400:
            said = answer.body.get("message") if isinstance(answer.body, dict) else None
            raise ConnectorFailed(
                f"Connect refused to {method} {what} (status {answer.status}): {said or 'it gave no reason'}"
            )

    def _call(self, method: str, what: str, body: object = None) -> HttpAnswer:
        try:
            return call(method, f"{self.url}/connectors/{what}", body)
        except (OSError, HTTPException) as error:
            raise ConnectorFailed(
                f"Connect at {self.url} did not answer to {method} {what} ({error}). Its worker's log is "
                f"{self.log}."
            ) from error


def reasons(trace: str) -> str:
    """Return the lines of a Java stack trace that say why: the first one, and that of every cause."""
    lines = [line for line in trace.splitlines() if line.strip() and not line.startswith(("\tat ", "\t..."))]
    return "\n".join(f"    {line}" for line in lines[:_SHOWN_REASONS])


def _part(name: str, part: Mapping[str, Any]) -> str:
    return f"Task {part['id']} of the connector {name}" if "id" in part else f"The connector {name}"
