"""The engines: each runs every case once, and the tests look at what it wrote."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

import pytest
from pyspark.sql import SparkSession

from tests.contract.case import BuiltCase, merged
from tests.contract.catalogue import BUILT, built, together
from tests.contract.comparison import of_topics
from tests.contract.engine import Engine, InMemory, Output
from tests.contract.faust_engine import FaustWorker
from tests.contract.spark_engine import SparkEngine
from tests.spark_session import running_session

Outputs: TypeAlias = Callable[[str], Output]


@pytest.fixture(scope="session", autouse=True)
def _cases_of_the_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Have one process of a run build each case for all, in the directory that they share."""
    if hasattr(request.config, "workerinput"):
        BUILT.directory = tmp_path_factory.getbasetemp().parent / "contract"


def _reference(request: pytest.FixtureRequest) -> Engine:
    return InMemory(batch=23)


def _faust(request: pytest.FixtureRequest) -> Engine:
    broker = request.getfixturevalue("broker")
    directory = request.getfixturevalue("tmp_path_factory").mktemp("faust")
    return FaustWorker(broker.bootstrap, directory)


@pytest.fixture(scope="session")
def spark_session() -> Iterator[SparkSession]:
    """A session on two threads of this process's Java."""
    with running_session("contract") as session:
        yield session


def _spark(request: pytest.FixtureRequest) -> Engine:
    broker = request.getfixturevalue("broker")
    directory = request.getfixturevalue("tmp_path_factory").mktemp("spark")
    return SparkEngine(request.getfixturevalue("spark_session"), broker.bootstrap, directory)


#: Time limits for what takes long on a busy machine: a run of all cases, and the start of Spark.
_RUN_S: Final = 900
_LONG: Final = frozenset({"outputs", "spark_session"})

_ENGINES: Final = (
    pytest.param(_reference, id="reference", marks=pytest.mark.together),
    pytest.param(_faust, id="faust", marks=[pytest.mark.broker, pytest.mark.together]),
    pytest.param(
        _spark, id="spark", marks=[pytest.mark.broker, pytest.mark.together, pytest.mark.timeout(_RUN_S)]
    ),
)


@pytest.fixture(scope="session", params=_ENGINES)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn."""
    chosen: Engine = request.param(request)
    return chosen


@pytest.fixture(scope="session", params=_ENGINES)
def outputs(request: pytest.FixtureRequest) -> Outputs:
    """Give the engine's output for a case, by the case's name. An engine runs each group of cases once.

    A run that fails is not tried again for the next case of its group: it takes minutes.
    """
    engine: Engine = request.param(request)
    found: dict[str, Output] = {}
    failed: dict[str, BaseException] = {}

    def output(name: str) -> Output:
        if name in failed:
            raise AssertionError(
                "the run of this case and others failed, as an earlier test says"
            ) from failed[name]
        if name not in found:  # the first test of each group waits for that group's run alone
            cases = next(cases for cases in together() if name in {case.name for case in cases})
            try:
                found.update(_by_case(cases, engine.run(merged(cases))))
            except (Exception, pytest.fail.Exception) as error:  # the second is that of a time limit
                failed.update(dict.fromkeys((case.name for case in cases), error))
                raise
        return found[name]

    return output


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests more time: the first test of each engine waits for a run of all cases, and the first one of
    each process for Spark.

    Any test can be the first: processes that have nothing left to do take tests from others.
    """
    for item in items:
        if not _LONG.isdisjoint(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.timeout(_RUN_S))


def _by_case(cases: list[BuiltCase], output: Output) -> Mapping[str, Output]:
    return {case.name: of_topics(output, built(case.name).topics) for case in cases}
