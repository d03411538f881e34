from __future__ import annotations

from pathlib import Path

import pytest

from stack.errors import JavaMissing
from stack.ports import choose_port
from stack.processes.server import Request
from stack.recipes.registry_recipe import ApicurioRecipe, settings_for


def settings() -> dict[str, str]:
    return dict(settings_for(20001, Path("/scratch"), Path("/data")))


def test_the_only_listener_is_on_loopback() -> None:
    assert settings()["quarkus.http.host"] == "127.0.0.1"
    assert settings()["quarkus.http.port"] == "20001"
    assert settings()["quarkus.management.host-enabled"] == "false"


def test_an_incompatible_schema_is_refused_as_by_confluents_registry() -> None:
    assert settings()["apicurio.rules.global.compatibility"] == "BACKWARD"


def test_schemas_are_kept_in_the_data_directory() -> None:
    assert settings()["apicurio.datasource.url"].startswith("jdbc:h2:file:/data/registry;")


def test_settings_that_are_given_win(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stack.recipes.registry_recipe.unpacked", lambda archive: tmp_path)
    monkeypatch.setattr("stack.recipes.registry_recipe.OLDEST_FOR_REGISTRY", 8)
    given = {"apicurio.rules.global.compatibility": "FULL"}
    plan = ApicurioRecipe().plan(Request(tmp_path / "home", tmp_path / "data", settings=given))
    assert [word for word in plan.command if "compatibility" in word] == [
        "-Dapicurio.rules.global.compatibility=FULL"
    ]


def test_the_address_is_the_url_that_clients_of_confluents_registry_take(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stack.recipes.registry_recipe.unpacked", lambda archive: tmp_path)
    monkeypatch.setattr("stack.recipes.registry_recipe.OLDEST_FOR_REGISTRY", 8)
    port = choose_port()
    plan = ApicurioRecipe().plan(Request(tmp_path / "home", tmp_path / "data", port))
    assert plan.address == f"http://127.0.0.1:{port}/apis/ccompat/v7"


def test_nothing_answers_where_nothing_listens() -> None:
    assert not ApicurioRecipe().answers(f"http://127.0.0.1:{choose_port()}/apis/ccompat/v7")


def test_without_java_no_directory_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stack.java._candidates", lambda: iter(()))
    with pytest.raises(JavaMissing, match="Java 21 or newer is needed"):
        ApicurioRecipe().plan(Request(tmp_path / "home", tmp_path / "home" / "data"))
    assert not (tmp_path / "home").exists()
