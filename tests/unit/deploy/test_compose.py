from __future__ import annotations

import json
import re
from importlib.metadata import distribution
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # comes with check-jsonschema

from stack.recipes.kafka_recipe import JARS, SETTINGS
from tests.unit.deploy.compose_file import COMPOSE, document, services
from tidegate.worker.process.settings import load_settings

# The host's listener needs a name of its own, which a broker on loopback does without.
DIFFERS_ON_PURPOSE = {"listener.security.protocol.map"}


@pytest.fixture(scope="module")
def compose_schema() -> Draft202012Validator:
    """The Compose specification's schema, as check-jsonschema carries it: nothing is fetched."""
    # Located, not imported: importing the package runs its command line, which wants a newer click.
    file = distribution("check-jsonschema").locate_file(
        "check_jsonschema/builtin_schemas/vendor/compose-spec.json"
    )
    return Draft202012Validator(json.loads(Path(str(file)).read_text()))


def test_the_file_follows_the_compose_specification(compose_schema: Draft202012Validator) -> None:
    assert [error.message for error in compose_schema.iter_errors(document())] == []


def test_a_misspelt_key_is_noticed(compose_schema: Draft202012Validator) -> None:
    broken = document()
    broken["services"]["worker"]["healthchek"] = broken["services"]["worker"].pop("healthcheck")
    (error,) = compose_schema.iter_errors(broken)
    assert "healthchek" in error.message


def test_broker_worker_and_source_are_there_and_watched() -> None:
    assert sorted(services()) == ["kafka", "sim", "worker"]
    assert all("healthcheck" in service for service in services().values())


@pytest.mark.parametrize(("name", "command"), [("worker", "tidegate worker"), ("sim", "tidegate sim run")])
def test_our_services_run_our_commands_on_a_healthy_broker(name: str, command: str) -> None:
    service = services()[name]
    assert " ".join(service["command"]) == command
    assert service["depends_on"]["kafka"]["condition"] == "service_healthy"
    assert service["environment"]["TIDEGATE_BOOTSTRAP_SERVERS"] == "kafka:9092"


def test_our_settings_are_named_for_tidegate() -> None:
    names = [name for each in ("worker", "sim") for name in services()[each]["environment"]]
    assert names
    assert all(name.startswith("TIDEGATE_") for name in names)


def test_a_store_that_ended_stays_ended() -> None:
    """It refuses a log that was written before, so that starting it again only repeats the refusal."""
    assert services()["sim"]["restart"] == "no"
    assert "docker compose down -v" in COMPOSE.read_text()


def test_the_worker_comes_back() -> None:
    assert services()["worker"]["restart"] == "unless-stopped"


def test_a_workers_status_is_served_where_its_published_port_leads(monkeypatch: pytest.MonkeyPatch) -> None:
    worker = services()["worker"]
    for name, value in worker["environment"].items():
        monkeypatch.setenv(name, re.sub(r"\$\{\w+:-(.*)\}", r"\1", value))
    settings = load_settings()
    (port,) = worker["ports"]
    assert settings.metrics_host == "0.0.0.0"  # loopback in the container cannot be reached from the host
    assert settings.metrics_port == port["target"]


def test_ports_are_published_on_the_hosts_loopback_alone() -> None:
    published = [port for service in services().values() for port in service.get("ports", [])]
    hosts = [port["host_ip"] if isinstance(port, dict) else port.split(":")[0] for port in published]
    assert hosts == ["127.0.0.1", "127.0.0.1"]


def test_two_workers_find_ports_of_their_own() -> None:
    (port,) = services()["worker"]["ports"]
    first, last = map(int, port["published"].split("-"))
    assert last > first


@pytest.mark.parametrize("name", sorted(SETTINGS.keys() - DIFFERS_ON_PURPOSE))
def test_the_broker_is_set_as_the_one_without_docker(name: str) -> None:
    variable = "KAFKA_" + name.upper().replace(".", "_")
    assert services()["kafka"]["environment"][variable] == SETTINGS[name]


def test_the_broker_has_the_version_of_the_one_without_docker() -> None:
    version = JARS.roots[0].version
    assert services()["kafka"]["image"] == f"${{TIDEGATE_KAFKA_IMAGE:-apache/kafka:{version}}}"
