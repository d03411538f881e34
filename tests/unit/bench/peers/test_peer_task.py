"""A peer is told what to do by its environment."""

from __future__ import annotations

from bench.peers.peer_task import PeerTask


def test_a_task_is_what_its_environment_says() -> None:
    task = PeerTask("127.0.0.1:9092", "from", "to", "peer-1", "/tmp/peer-1")
    assert PeerTask.of({**task.environment(), "PATH": "/bin"}) == task
    assert task.environment()["BENCH_SOURCE"] == "from"
