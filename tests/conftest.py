"""The fixtures of all tests: one real broker, names that never collide, Hypothesis profiles.

``TIDEGATE_HYPOTHESIS=many`` runs every property test on twenty times as many examples, as `make soak` does,
``TIDEGATE_HYPOTHESIS=soak pytest --timeout=0`` on two hundred times as many, and
``TIDEGATE_HYPOTHESIS=some`` on two fifths, as `make test` does, and ``few`` on a fifth, as `make unit` does.
"""

from __future__ import annotations

import gc
import os
import re
import sys
import uuid
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from hypothesis import HealthCheck, settings

from stack.kafka import KafkaBroker
from stack.recipes.kafka_recipe import BOOTSTRAP_CHECKPOINT, CLASS_ARCHIVE
from tests.dealing import dealt
from tests.destinations import others_allowed as others_allowed
from tests.examples import USUAL
from tests.kernel_everywhere import use_kernel_of_environment
from tests.measured import LIST, measured, share_of
from tests.sampling import sampled
from tests.shared_broker import PATIENT, BrokerHost, shared_broker
from tidegate import redaction

# No deadline, and no limit for drawing: on a machine that also runs a broker, a slow example says nothing
# about the code. The blob reproduces a failure anywhere with one line.
_OF_ALL: Final = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("few", _OF_ALL, max_examples=USUAL // 5)
settings.register_profile("some", _OF_ALL, max_examples=2 * USUAL // 5)
settings.register_profile("fast", _OF_ALL, max_examples=USUAL)
settings.register_profile("many", _OF_ALL, max_examples=20 * USUAL)
settings.register_profile("soak", _OF_ALL, max_examples=200 * USUAL)
settings.load_profile(os.environ.get("TIDEGATE_HYPOTHESIS", "fast"))

# The servers of tests live for minutes, too short for the JVM's second compiler to pay off: without it a
# broker takes 5 s of processor time to start, with it 9. Their heaps are small: to collect them by several
# threads beside the program takes 0.3 s more of each start, and 20 MiB.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

_WITH_KERNEL: Final = use_kernel_of_environment()

_HOST: Final = pytest.StashKey[BrokerHost]()
_ADDRESS: Final = "broker_host"
#: What a test process is told by the one that shares the tests out, and the variable that tells brokers.
_FILES: Final = {"class_archive": CLASS_ARCHIVE, "bootstrap_checkpoint": BOOTSTRAP_CHECKPOINT}

#: The seconds of each test that is not quick.
_SECONDS: Final = measured(LIST.read_text(encoding="utf-8"))
_SLOW_S, _BROKER_S = 20, 3
_TOGETHER_S = 0.15  # a minute for what they share, and next to nothing for each


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of `make test` and `make unit`."""
    parser.addoption(
        "--sample", metavar="SEED", help="of long tests, and of long cases, take some by this seed"
    )
    parser.addoption(
        "--quick", action="store_true", help="leave tests out that take a tenth of a second or more"
    )


def pytest_report_header(config: pytest.Config) -> str:
    """Say how to have the same cases again."""
    seed = config.getoption("sample")
    return f"some of the long tests alone: the same ones again by `make test SAMPLE={seed}`" if seed else ""


@pytest.hookimpl(trylast=True)  # when the tests that are not asked for are gone
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Among several processes the tests are in an order that keeps all of them busy to the end."""
    if _WITH_KERNEL:
        for item in items:
            if item.get_closest_marker("python_step"):
                item.add_marker(
                    pytest.mark.skip("it puts a defect into Python's step, which the kernel lacks")
                )
    if seed := config.getoption("sample"):
        items[:], left = sampled(items, seed, _test_of, _share_of)
        config.hook.pytest_deselected(items=left)
    if config.getoption("quick"):
        quick: list[pytest.Item] = []
        long: list[pytest.Item] = []
        for item in items:
            (long if _test_of(item) in _SECONDS else quick).append(item)
        config.hook.pytest_deselected(items=long)
        items[:] = quick
    processes: int = getattr(config, "workerinput", {}).get("workercount", 1)
    if processes > 1:
        items[:] = dealt(items, processes, _kept_together, _seconds)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Iterator[None]:
    """The garbage collector leaves out what is imported and collected, which stays to the end.

    To look for garbage among it takes 1.5 s of each process before its first test.
    """
    gc.disable()
    try:
        _compile_a_share(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _compile_a_share(config: pytest.Config) -> None:
    """Among several processes, import a share of the test files first, each process another.

    In a new checkout no file is compiled, which takes 10 s of processor time for all of them. Processes that
    import all files in one order compile each of them side by side; now each finds most of them done.
    """
    told = getattr(config, "workerinput", None)
    if told is None:
        return
    places = [config.rootpath / name.partition("::")[0] for name in config.args]
    files = sorted({file for place in places for file in place.rglob("test_*.py")})
    number = int(told["workerid"].removeprefix("gw"))
    for file in files[number :: told["workercount"]]:
        with suppress(Exception, pytest.skip.Exception):  # whoever collects the file reports it
            import_module(".".join(file.relative_to(config.rootpath).with_suffix("").parts))


def _kept_together(item: pytest.Item) -> Path | str:
    """Return what tests have in common that share servers, or what one of them made for all."""
    together = item.get_closest_marker("together")
    if together is None:
        return item.path
    return str(together.args[0]) if together.args else item.path.parent


def _test_of(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _share_of(item: pytest.Item) -> int:
    mark = item.get_closest_marker("sampled")
    share = 1 if mark is None else int(mark.args[0])
    if item.get_closest_marker("always") is not None:
        return share
    return max(share, share_of(_SECONDS.get(_test_of(item), 0)))


def _seconds(item: pytest.Item) -> float:
    together = item.get_closest_marker("together")
    if together is not None and not together.args:
        return _TOGETHER_S
    if item.get_closest_marker("slow"):
        return _SLOW_S
    return _BROKER_S if item.get_closest_marker("broker") else 0


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """A test process is told whom to ask for the broker."""
    if _HOST not in node.config.stash:
        node.config.stash[_HOST] = BrokerHost(partial(_end_run, node.config))
    node.workerinput[_ADDRESS] = node.config.stash[_HOST].address
    node.workerinput["class_archive"] = str(node.config.stash[_HOST].archive.file)
    node.workerinput["bootstrap_checkpoint"] = str(node.config.stash[_HOST].checkpoint)


def _end_run(config: pytest.Config, why: str) -> None:
    """The test processes end after the tests that they run now; those that are left do not run."""
    print(why, file=sys.stderr, flush=True)
    sharing = config.pluginmanager.getplugin("dsession")
    sharing.shouldstop = why.partition("\n")[0]


def pytest_configure(config: pytest.Config) -> None:
    """Brokers of a test process, and of the commands that it runs, begin with the files of the run."""
    told = getattr(config, "workerinput", {})
    os.environ.update({variable: told[name] for name, variable in _FILES.items() if name in told})


def pytest_unconfigure(config: pytest.Config) -> None:
    """All test processes have ended."""
    if (host := config.stash.get(_HOST, None)) is not None:
        host.close()


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> Iterator[KafkaBroker]:
    """A real broker: started for the first test that asks for it, stopped after the last test.

    It is shared, with other processes too: tests that stop, freeze or kill a broker start a `KafkaBroker` of
    their own.
    """
    told = getattr(request.config, "workerinput", {})
    if _ADDRESS in told:
        yield shared_broker(told[_ADDRESS])
        return
    with KafkaBroker(settings=PATIENT) as running:
        yield running


@pytest.fixture(autouse=True)
def _secrets_of_this_test_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a process forget the secrets of a test behind it: they are words in the texts of others."""
    secrets, before = redaction._Secrets(), redaction._secrets
    secrets.keep(before.all())
    monkeypatch.setattr(redaction, "_secrets", secrets)


@pytest.fixture
def topic_prefix(request: pytest.FixtureRequest) -> Iterator[str]:
    """A prefix for topics, groups and transactional ids that no other test or run uses.

    Topics of the shared broker that begin so end with the test: clients ask for all topics when they begin,
    and are to be told of few.
    """
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)[:40].strip("-")
    prefix = f"{name}-{uuid.uuid4().hex[:8]}-"
    yield prefix
    if "broker" in request.fixturenames:
        _delete_topics(request.getfixturevalue("broker").bootstrap, prefix)


def _delete_topics(bootstrap: str, prefix: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    with suppress(KafkaException):  # topics that stay fail no test: that they are gone is no claim of any
        names = [name for name in admin.list_topics(timeout=30).topics if name.startswith(prefix)]
        if names:
            wait([*admin.delete_topics(names).values()])
