"""A worker of Kafka Connect that does not answer. `tests/e2e/test_stack_connect.py` has one that does."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import closing

import pytest

from stack import connect
from stack.connect import ConnectWorker
from stack.errors import ConnectorFailed
from stack.ports import LOOPBACK, choose_port
from stack.processes.server import Request, ServerPlan
from stack.recipes.connect_recipe import Connect
from tests.unit.stack.wrong_server import saying

ASKING: list[Callable[[ConnectWorker], object]] = [
    lambda worker: worker.states("sink"),
    lambda worker: worker.await_running("sink"),
    lambda worker: worker.put("sink", {}),
    lambda worker: worker.restart("sink"),
    lambda worker: worker.delete("sink"),
]


def worker_at(url: str, monkeypatch: pytest.MonkeyPatch) -> ConnectWorker:
    """A worker that is planned, and not started, with this address."""

    class Planned(Connect):
        def plan(self, request: Request) -> ServerPlan:
            return ServerPlan(self.name, (), url, request.home / "server.log", request.data)

    monkeypatch.setattr(connect, "Connect", Planned)
    return ConnectWorker("127.0.0.1:1")


@pytest.mark.parametrize("ask", ASKING)
def test_a_worker_that_is_away_is_a_sentence_with_its_log(
    ask: Callable[[ConnectWorker], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(worker_at(f"http://{LOOPBACK}:{choose_port()}", monkeypatch)) as worker:
        said = rf"{worker.url} did not answer .*sink.* log is {worker.log}"
        with pytest.raises(ConnectorFailed, match=said):
            ask(worker)


def test_a_worker_that_breaks_off_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    with (
        saying(b"no http\r\n\r\n") as url,
        closing(worker_at(url, monkeypatch)) as worker,
        pytest.raises(ConnectorFailed, match="did not answer to GET"),
    ):
        worker.states("sink")
