"""``tidegate status`` against a small HTTP server in the place of a worker."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.unit.cli.running import run
from tidegate.worker.operations.report import (
    ForeignReport,
    ParkedReport,
    PartitionReport,
    QuarantineReport,
    RangeReport,
    RegistryReport,
    WorkerReport,
)

STATUS = WorkerReport(
    app_id="tidegate",
    instance_id=None,
    log="raftlog",
    log_partitions=2,
    stall_alarm_ms=1_000,
    partitions=(
        PartitionReport(
            0,
            "running",
            next_offset=17,
            ranges=4,
            slowest=(RangeReport(0, 3, 2, "live", "5.0000000000", 9_000, 3_000, 1),),
            parked=(ParkedReport(0, 7, "healing", 12, 3, 4_500, (5,)),),
        ),
        PartitionReport(
            1, "held", quarantined=(QuarantineReport(1, 9, 70, "5.0000000000", "raft index 5 is missing"),)
        ),
    ),
    foreign=(ForeignReport("tidegate-jobs", 3, 0, 17, "it is no JSON"),),
    registry_waits=(RegistryReport("bank", "http://registry:8081", 1_500, 3, "it does not answer"),),
).as_json()


class _Worker(BaseHTTPRequestHandler):
    """Serves ``STATUS``, and text that is no JSON under ``/other``."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(json.dumps(STATUS).encode() if self.path == "/status" else b"<html>")

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name there
        """Say nothing."""


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Worker) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_fields_and_tables_are_shown(url: str) -> None:
    lines = [line.split() for line in run("status", "--url", url).stdout.splitlines()]
    assert lines[:4] == [["app_id", "tidegate"], ["log", "raftlog"], ["log_partitions", "2"], []]
    partitions = lines.index(["partitions"])
    assert lines[partitions + 1][:4] == ["PARTITION", "STATE", "NEXT", "OFFSET"]
    assert [row[:2] for row in lines[partitions + 2 : partitions + 4]] == [["0", "running"], ["1", "held"]]
    assert lines[partitions + 2][2] == "17"
    ranges = lines.index(["quarantined", "ranges"])
    assert lines[ranges + 1] == ["PARTITION", "RANGE", "ID", "OFFSET", "RESOLVED", "CAUSE"]
    assert lines[ranges + 2] == ["1", "9", "70", "5.0000000000", "raft", "index", "5", "is", "missing"]


def test_a_feed_that_waits_for_its_schema_registry_is_shown_with_the_cause(url: str) -> None:
    lines = [line.split() for line in run("status", "--url", url).stdout.splitlines()]
    waits = lines.index(["schema", "registry", "waits"])
    assert lines[waits + 1] == ["FEED", "REGISTRY", "WAITING", "MS", "TRIES", "CAUSE"]
    assert lines[waits + 2] == ["bank", "http://registry:8081", "1500", "3", "it", "does", "not", "answer"]


def test_foreign_records_are_shown_with_the_last_one_of_each_topic(url: str) -> None:
    lines = [line.split() for line in run("status", "--url", url).stdout.splitlines()]
    foreign = lines.index(["foreign", "records"])
    assert lines[foreign + 1] == ["TOPIC", "RECORDS", "PARTITION", "OFFSET", "CAUSE"]
    assert lines[foreign + 2] == ["tidegate-jobs", "3", "0", "17", "it", "is", "no", "JSON"]


def test_ranges_are_shown_with_their_states(url: str) -> None:
    lines = [line.split() for line in run("status", "--url", url).stdout.splitlines()]
    parked = lines.index(["parked", "ranges"])
    assert lines[parked + 1][:5] == ["PARTITION", "RANGE", "ID", "STATE", "OFFSET"]
    assert lines[parked + 2] == ["0", "7", "healing", "12", "3", "4500", "[5]"]
    slowest = lines.index(["slowest", "ranges"])
    assert lines[slowest + 2][:4] == ["0", "3", "2", "live"]


def test_several_workers_are_shown_each_with_its_own(url: str) -> None:
    shown = run("status", "--url", url, "--url", f"{url}/").stdout
    one = run("status", "--url", url).stdout
    assert shown == f"worker  {url}\n{one}\nworker  {url}/\n{one}"
    both = json.loads(run("status", "--url", url, "--url", f"{url}/", "--json").stdout)
    assert both == [STATUS, STATUS]


def test_a_worker_that_is_away_hides_no_other(url: str) -> None:
    gone = "http://127.0.0.1:1"
    result = run("status", "--url", gone, "--url", url)
    assert result.exit_code == 1
    assert result.stdout == f"worker  {url}\n{run('status', '--url', url).stdout}"
    assert f"The worker at {gone} does not answer" in result.stderr
    listed = run("status", "--url", url, "--url", gone, "--json")
    assert (listed.exit_code, json.loads(listed.stdout)) == (1, [STATUS])


def test_json_is_passed_on(url: str) -> None:
    assert json.loads(run("status", "--url", url, "--json").stdout) == STATUS


def test_the_worker_of_this_machine_is_found_by_its_data_directory(url: str, tmp_path: Path) -> None:
    home = tmp_path / "tidegate"
    home.mkdir()
    (home / "worker.json").write_text(json.dumps({"pid": 1, "url": url}))
    assert run("status", "--data-dir", str(tmp_path)).stdout == run("status", "--url", url).stdout


def test_no_worker_on_this_machine_is_a_sentence(tmp_path: Path) -> None:
    result = run("status", "--data-dir", str(tmp_path))
    assert result.exit_code == 1
    assert result.stderr.startswith(f"No worker runs with the data directory {tmp_path}")


def test_a_worker_that_is_gone_is_a_sentence() -> None:
    result = run("status", "--url", "http://127.0.0.1:1")
    assert result.exit_code == 1
    assert result.stderr.startswith("The worker at http://127.0.0.1:1 does not answer")


def test_another_program_is_told_from_a_worker(url: str) -> None:
    result = run("status", "--url", f"{url}/other")
    assert result.exit_code == 1
    assert "is not a worker: it did not send JSON" in result.stderr


@pytest.mark.parametrize("address", ["file:///etc/passwd", "worker:8080"])
def test_an_address_that_is_not_http_is_refused(address: str) -> None:
    result = run("status", "--url", address)
    assert result.exit_code == 1
    assert "begins with http:// or https://" in result.stderr


def test_an_address_that_cannot_be_read_is_a_sentence() -> None:
    result = run("status", "--url", "http://[::1")
    assert result.exit_code == 1
    assert result.stderr.startswith("http://[::1 is not the address of a worker: ")


def test_a_token_that_cannot_be_sent_is_named(url: str) -> None:
    result = run("status", "--url", url, TIDEGATE_METRICS_TOKEN="hush\n")
    assert result.exit_code == 1
    assert "TIDEGATE_METRICS_TOKEN is set, and is no token" in result.stderr
    assert "hush" not in result.stderr
