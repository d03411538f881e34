from __future__ import annotations

import json
from importlib.metadata import distribution
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]  # comes with check-jsonschema

from stack.kafka_recipe import JARS, SETTINGS
from tests.unit.deploy.compose_file import document, services

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


@pytest.mark.parametrize("name", sorted(SETTINGS.keys() - DIFFERS_ON_PURPOSE))
def test_the_broker_is_set_as_the_one_without_docker(name: str) -> None:
    variable = "KAFKA_" + name.upper().replace(".", "_")
    assert services()["kafka"]["environment"][variable] == SETTINGS[name]


def test_the_broker_has_the_version_of_the_one_without_docker() -> None:
    assert services()["kafka"]["image"] == f"apache/kafka:{JARS.roots[0].version}"
