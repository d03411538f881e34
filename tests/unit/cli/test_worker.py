"""``tidegate worker``: what it says of its settings."""

from __future__ import annotations

from tests.unit.cli.running import run
from tidegate.worker.process.settings import Settings


def test_the_worker_names_the_variables_of_its_passwords() -> None:
    secrets = [name for name in Settings.model_fields if name.endswith("_password")]
    assert secrets
    text = run("worker", "--help").stdout
    assert not [name for name in secrets if f"TIDEGATE_{name.upper()}" not in text]
