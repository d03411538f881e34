from __future__ import annotations

import socket
from pathlib import Path

import pytest

from stack import rest
from stack.errors import StackError
from stack.ports import LOOPBACK
from stack.processes.server import Request, ServerPlan
from stack.recipes import spark_recipe
from stack.recipes.spark_recipe import SparkMaster, SparkWorker, spark_home
from tests.unit.stack.wrong_server import saying


@pytest.fixture(autouse=True)
def any_java(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_recipe, "OLDEST_FOR_SPARK", 8)


def planned(recipe: SparkMaster | SparkWorker, tmp_path: Path, **request: dict[str, str]) -> ServerPlan:
    return recipe.plan(Request(tmp_path / "home", tmp_path / "data", **request))  # type: ignore[arg-type]


def follows(command: tuple[str, ...], option: str) -> str:
    return command[command.index(option) + 1]


def test_a_master_listens_on_loopback_alone_and_takes_no_programs_by_http(tmp_path: Path) -> None:
    plan = planned(SparkMaster(), tmp_path)
    assert follows(plan.command, "--host") == LOOPBACK
    assert plan.address == f"{LOOPBACK}:{follows(plan.command, '--port')}"
    assert "-Dspark.master.rest.enabled=false" in plan.command
    assert plan.conduct.environment["SPARK_LOCAL_IP"] == LOOPBACK


def test_its_web_page_has_a_port_of_its_own(tmp_path: Path) -> None:
    command = planned(SparkMaster(), tmp_path).command
    assert follows(command, "--webui-port") != follows(command, "--port")


def test_settings_are_properties_of_spark(tmp_path: Path) -> None:
    plan = planned(SparkMaster(), tmp_path, settings={"spark.master.rest.enabled": "true"})
    assert "-Dspark.master.rest.enabled=true" in plan.command
    assert "-Dspark.master.rest.enabled=false" not in plan.command


def test_a_worker_offers_what_it_is_told_to_the_master_that_it_is_told(tmp_path: Path) -> None:
    with socket.create_server((LOOPBACK, 0)) as listener:
        master = f"{LOOPBACK}:{listener.getsockname()[1]}"
        told = {"master": f"spark://{master}", "cores": "3", "memory": "2g"}
        command = planned(SparkWorker(), tmp_path, settings=told).command
        found = planned(SparkWorker(), tmp_path, running={"spark-master": master}).command
    assert command[-1] == found[-1] == f"spark://{master}"
    assert (follows(command, "--cores"), follows(command, "--memory")) == ("3", "2g")
    assert follows(command, "--work-dir") == str(tmp_path / "data")
    assert not any(part.startswith("-Dmaster") for part in command)


def test_a_worker_without_a_master_is_refused_with_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(StackError, match="stack up spark-master"):
        planned(SparkWorker(), tmp_path)
    with pytest.raises(StackError, match=r"nothing listens at 127\.0\.0\.1:1"):
        planned(SparkWorker(), tmp_path, settings={"master": "127.0.0.1:1"})
    with pytest.raises(StackError, match="'localhost' names no host and port"):
        planned(SparkWorker(), tmp_path, settings={"master": "spark://localhost"})


def test_a_worker_that_is_not_there_does_not_answer() -> None:
    assert not SparkWorker().answers("http://127.0.0.1:1")


@pytest.mark.parametrize("text", [b"no http\r\n\r\n", b""], ids=["no HTTP", "silence"])
def test_a_program_in_the_place_of_a_worker_does_not_answer(
    text: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "_PROBE_TIMEOUT_S", 0.1)
    with saying(text) as address:
        assert not SparkWorker().answers(address)


def test_without_pyspark_the_refusal_says_what_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark_recipe, "find_spec", lambda name: None)
    with pytest.raises(StackError, match="extra `spark`"):
        spark_home()
