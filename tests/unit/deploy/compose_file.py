"""The Compose file as values, its merge keys resolved."""

from __future__ import annotations

from typing import Any

from ruamel.yaml import YAML

from stack.places import CHECKOUT

COMPOSE = CHECKOUT / "docker-compose.yml"


def document() -> dict[str, Any]:
    """All of the file."""
    return dict(YAML(typ="safe").load(COMPOSE))


def services() -> dict[str, dict[str, Any]]:
    """Every service by name."""
    return dict(document()["services"])


def health_script(service: str) -> str:
    """The Python text that a service's health check runs."""
    *command, script = services()[service]["healthcheck"]["test"]
    assert command == ["CMD", "python", "-c"]
    return str(script)
