"""A peer that cannot be installed is left out by name, with the reason; the others are measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.peers import contest
from bench.peers.catalogue import PEERS
from bench.peers.environments import Program, kafka_streams
from tidegate.errors import RetryError

_PROGRAM = Program(Path("/bin/true"), ())


def _refused(_: Path) -> Program:
    raise RetryError("pip ended with status 1")


def test_without_a_compiler_there_is_no_kafka_streams(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(RetryError, match="There is no javac of Java 17 or newer in JAVA_HOME or on PATH"):
        kafka_streams(tmp_path)


def test_a_peer_that_cannot_be_installed_is_left_out_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, *_ = PEERS
    peers = (first._replace(program=_refused), second._replace(program=lambda _: _PROGRAM))
    monkeypatch.setattr(contest, "PEERS", peers)
    programs, skipped = contest._programs(tmp_path)
    assert {peer.name: program for peer, program in programs.items()} == {second.name: _PROGRAM}
    assert skipped == {first.name: "pip ended with status 1"}
