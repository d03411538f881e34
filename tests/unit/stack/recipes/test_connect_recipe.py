from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from stack.connect import reasons
from stack.errors import AddressRefused, StackError
from stack.ports import LOOPBACK, choose_port
from stack.processes.server import Request, ServerPlan
from stack.recipes import connect_recipe
from stack.recipes.connect_recipe import Connect, worker_properties


@pytest.fixture
def broker() -> Iterator[str]:
    """An address where something listens."""
    with socket.create_server((LOOPBACK, 0)) as listener:
        yield f"{LOOPBACK}:{listener.getsockname()[1]}"


@pytest.fixture
def downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache that holds everything."""
    (tmp_path / "cached").mkdir()
    names = ("avro-1.12.0.jar", "connect-json-3.9.0.jar", "kafka-clients-3.9.0.jar", "registry.jar")
    jars = tuple(tmp_path / "cached" / name for name in names)
    for jar in jars:
        jar.touch()
    monkeypatch.setattr(connect_recipe, "resolve", lambda wanted: jars)
    monkeypatch.setattr(connect_recipe, "unpacked", lambda archive: tmp_path / "cached")
    monkeypatch.setattr(connect_recipe, "OLDEST_FOR_KAFKA", 8)


def plan(tmp_path: Path, **request: dict[str, str]) -> ServerPlan:
    return Connect().plan(Request(tmp_path / "home", tmp_path / "data", **request))  # type: ignore[arg-type]


def properties(**overrides: str) -> dict[str, str]:
    dotted = {name.replace("_", "."): value for name, value in overrides.items()}
    text = worker_properties(20001, Path("/plugins"), Path("/data"), dotted)
    return dict(line.split("=", 1) for line in text.splitlines())


def written(tmp_path: Path) -> str:
    return (tmp_path / "home" / "worker.properties").read_text()


def test_the_only_listener_is_on_loopback() -> None:
    assert properties()["listeners"] == "http://127.0.0.1:20001"


def test_offsets_are_kept_in_the_data_directory() -> None:
    assert properties()["offset.storage.file.filename"] == "/data/offsets"


def test_markers_of_aborted_transactions_are_not_read() -> None:
    assert properties()["consumer.isolation.level"] == "read_committed"


def test_settings_that_are_given_win() -> None:
    assert properties(offset_flush_interval_ms="7")["offset.flush.interval.ms"] == "7"


@pytest.mark.usefixtures("downloaded")
def test_the_kafka_of_the_stack_is_used(tmp_path: Path, broker: str) -> None:
    plan(tmp_path, running={"kafka": broker, "postgres": "postgresql://elsewhere:1/d"})
    assert f"bootstrap.servers={broker}\n" in written(tmp_path)


@pytest.mark.usefixtures("downloaded")
def test_a_broker_that_is_named_wins_over_the_kafka_of_the_stack(tmp_path: Path, broker: str) -> None:
    settings = {"bootstrap.servers": f"127.0.0.1:{choose_port()}, {broker}"}
    plan(tmp_path, running={"kafka": "127.0.0.1:1"}, settings=settings)
    assert f"bootstrap.servers={settings['bootstrap.servers'].replace(' ', '')}\n" in written(tmp_path)


@pytest.mark.usefixtures("downloaded")
def test_empty_parts_of_a_list_of_brokers_are_left_out(tmp_path: Path, broker: str) -> None:
    plan(tmp_path, settings={"bootstrap.servers": f",{broker}, ,"})
    assert f"bootstrap.servers={broker}\n" in written(tmp_path)


@pytest.mark.parametrize("address", ["localhost", "kafka:99999"])
def test_a_broker_without_a_port_is_refused_also_beside_one_that_listens(
    tmp_path: Path, broker: str, address: str
) -> None:
    for named in (address, f"{broker},{address}"):
        with pytest.raises(AddressRefused, match=f"'{address}' names no host and port"):
            plan(tmp_path, settings={"bootstrap.servers": named})


def test_without_a_broker_the_error_says_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(StackError, match=r"no Kafka of the stack is up: run `tidegate stack up kafka` first"):
        plan(tmp_path)
    with pytest.raises(StackError, match="no Kafka of the stack is up"):
        plan(tmp_path, settings={"bootstrap.servers": " ,"})
    assert not (tmp_path / "home").exists()


def test_a_broker_that_is_away_is_named(tmp_path: Path) -> None:
    away = f"127.0.0.1:{choose_port()}"
    with pytest.raises(StackError, match=rf"nothing listens at {re.escape(away)}.*Start the broker first"):
        plan(tmp_path, settings={"bootstrap.servers": away})


@pytest.mark.usefixtures("downloaded")
def test_both_plugins_are_found_without_a_search(tmp_path: Path, broker: str) -> None:
    for _ in range(2):  # the second time over what the first has left
        plan(tmp_path, running={"kafka": broker})
    plugins = tmp_path / "home" / "plugins"
    assert sorted(path.name for path in plugins.iterdir()) == ["avro", "jdbc"]
    assert (plugins / "jdbc").resolve() == (tmp_path / "cached").resolve()
    jars = sorted(path.name for path in (plugins / "avro").iterdir())
    assert jars == ["avro-1.12.0.jar", "manifest.jar", "registry.jar"], "the worker's own Kafka counts"
    with ZipFile(plugins / "avro" / "manifest.jar") as manifest:
        (name,) = manifest.namelist()
        assert name == "META-INF/services/org.apache.kafka.connect.storage.Converter"
        assert manifest.read(name) == b"io.apicurio.registry.utils.converter.AvroConverter\n"


def test_nothing_answers_where_nothing_listens() -> None:
    assert not Connect().answers(f"http://127.0.0.1:{choose_port()}")


def test_of_a_trace_the_reasons_are_shown_and_not_the_places() -> None:
    trace = (
        "org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler\n"
        "\tat org.apache.kafka.connect.runtime.Worker.run(Worker.java:1)\n"
        "\t... 14 more\n"
        "Caused by: java.io.IOException: no such schema\n"
        "\tat io.apicurio.Client.get(Client.java:2)\n"
    )
    assert reasons(trace) == (
        "    org.apache.kafka.connect.errors.ConnectException: Tolerance exceeded in error handler\n"
        "    Caused by: java.io.IOException: no such schema"
    )
