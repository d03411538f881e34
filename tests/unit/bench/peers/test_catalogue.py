"""The tables name every peer, measured or not."""

from __future__ import annotations

from io import StringIO

from rich.console import Console

from bench.peers.catalogue import NO_PEER_DOES, PEERS
from bench.peers.contest import COPY, KERNEL, PYTHON, Contest, PeerRound, notes, results
from bench.report import Report
from stack.places import CHECKOUT

_PAGE = (CHECKOUT / "docs" / "benchmarks.md").read_text()


def test_the_peers_are_those_that_were_promised() -> None:
    assert [peer.name for peer in PEERS] == [
        "stock Faust",
        "Quix Streams",
        "Bytewax",
        "Kafka Streams",
        "raw copy, confluent-kafka",
        "raw copy, aiokafka",
    ]
    assert COPY in {peer.name for peer in PEERS}
    assert all(peer.version[0].isdigit() for peer in PEERS)


def test_the_tables_name_every_contender_and_what_it_does_not_do() -> None:
    report, console = Report(seed=1, quick=True), Console(record=True, width=400, file=StringIO())
    rounds = {name: [PeerRound(10, 5.0, 2.0)] for name in (KERNEL, PYTHON, COPY)}
    report.peers = Contest(results(rounds), notes(), {"Bytewax": "pip ended with status 1"})
    report.print(console)
    text = console.export_text()
    assert all(name in text for name in (KERNEL, PYTHON, *(peer.name for peer in PEERS)))
    assert all(peer.does_not in text for peer in PEERS)
    assert NO_PEER_DOES in text
    assert "Bytewax was left out: pip ended with status 1" in text
    stored = report.to_json()["peers"]
    assert stored["skipped"] == {"Bytewax": "pip ended with status 1"}
    assert [each["contender"] for each in stored["results"]] == [KERNEL, PYTHON, COPY]


def test_the_page_names_every_contender() -> None:
    assert all(f"| {name} |" in _PAGE for name in (KERNEL, PYTHON, *(peer.name for peer in PEERS)))
