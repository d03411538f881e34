"""The fixtures of all tests: one real broker, names that never collide, Hypothesis profiles.

``TIDEGATE_HYPOTHESIS`` sets how many examples every property test runs: ``many`` twenty times as many, as in
`make soak`; ``some`` two fifths of them, as in `make test`; ``few`` a fifth, as in `make unit`.
``TIDEGATE_HYPOTHESIS=soak pytest --timeout=0`` runs two hundred times as many.
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

# There is no deadline, and no limit for drawing: on a machine that also runs a broker, a slow example says
# nothing about the code. The blob reproduces a failure anywhere with one line.
_OF_ALL: Final = settings(deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("few", _OF_ALL, max_examples=USUAL // 5)
settings.register_profile("some", _OF_ALL, max_examples=2 * USUAL // 5)
settings.register_profile("fast", _OF_ALL, max_examples=USUAL)
settings.register_profile("many", _OF_ALL, max_examples=20 * USUAL)
settings.register_profile("soak", _OF_ALL, max_examples=200 * USUAL)
_PROFILE: Final = os.environ.get("TIDEGATE_HYPOTHESIS", "fast")
settings.load_profile(_PROFILE)

# The servers of tests live for minutes. That is too short for the JVM's second compiler to pay off: a broker
# takes 5 s of processor time to start without that compiler, and 9 s with it. The servers' heaps are small: a
# collector with several threads beside the program costs 0.3 s more for each start, and 20 MiB.
os.environ.setdefault("JDK_JAVA_OPTIONS", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")

_WITH_KERNEL: Final = use_kernel_of_environment()

_HOST: Final = pytest.StashKey[BrokerHost]()
_ADDRESS: Final = "broker_host"
#: The names of values that the process which shares the tests out gives to a test process, and of the
#: environment variable for brokers.
_FILES: Final = {"class_archive": CLASS_ARCHIVE, "bootstrap_checkpoint": BOOTSTRAP_CHECKPOINT}

#: The seconds of each test that is not quick.
_SECONDS: Final = measured(LIST.read_text(encoding="utf-8"))
_SLOW_S, _BROKER_S = 20, 3
#: A sample has one in so many tests that are marked `soak`, and of property tests with twenty times their
#: examples.
_SOAK_SHARE = 6
_TOGETHER_S = 0.15  # a minute for what they share; each one adds almost nothing


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of `make test`, `make unit` and `make soak`."""
    parser.addoption(
        "--sample", metavar="SEED", help="of long tests, and of long cases, take some by this seed"
    )
    parser.addoption(
        "--quick", action="store_true", help="leave tests out that take a tenth of a second or more"
    )


def pytest_report_header(config: pytest.Config) -> str:
    """Return a line that says how to run the same cases again."""
    seed = config.getoption("sample")
    return f"some of the long tests alone: the same ones again by SAMPLE={seed}" if seed else ""


@pytest.hookimpl(trylast=True)  # after other hooks have removed the tests that are not asked for
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests into an order that keeps all test processes busy to the end, if there are several."""
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
    """Keep the garbage collector away from the imported modules and the collected tests, which stay in memory
    to the end.

    Otherwise each process spends 1.5 s on a search for garbage among them before its first test.
    """
    gc.disable()
    try:
        _compile_a_share(session.config)
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def _compile_a_share(config: pytest.Config) -> None:
    """Import a share of the test files first, if there are several test processes. Each process has another
    share.

    In a new checkout no file is compiled yet; to compile all of them takes 10 s of processor time. If all
    processes imported the files in one order, each process would compile every file. With a share first, each
    process finds most files compiled by others.
    """
    told = getattr(config, "workerinput", None)
    if told is None:
        return
    places = [config.rootpath / name.partition("::")[0] for name in config.args]
    files = sorted({file for place in places for file in place.rglob("test_*.py")})
    number = int(told["workerid"].removeprefix("gw"))
    for file in files[number :: told["workercount"]]:
        with suppress(Exception, pytest.skip.Exception):  # the error is reported when the file is collected
            import_module(".".join(file.relative_to(config.rootpath).with_suffix("").parts))


def _kept_together(item: pytest.Item) -> Path | str:
    """Return a value that is the same for all tests that have to stay together: they share servers, or one of
    them makes something for all."""
    together = item.get_closest_marker("together")
    if together is None:
        return item.path
    return str(together.args[0]) if together.args else item.path.parent


def _test_of(item: pytest.Item) -> str:
    return item.nodeid.partition("[")[0]


def _share_of(item: pytest.Item) -> int:
    mark = item.get_closest_marker("sampled")
    share = 1 if mark is None else int(mark.args[0])
    many = _PROFILE == "many" and item.get_closest_marker("hypothesis") is not None
    if many or item.get_closest_marker("soak") is not None:
        share = max(share, _SOAK_SHARE)
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
    """Tell a test process whom to ask for the broker."""
    if _HOST not in node.config.stash:
        node.config.stash[_HOST] = BrokerHost(partial(_end_run, node.config))
    node.workerinput[_ADDRESS] = node.config.stash[_HOST].address
    node.workerinput["class_archive"] = str(node.config.stash[_HOST].archive.file)
    node.workerinput["bootstrap_checkpoint"] = str(node.config.stash[_HOST].checkpoint)


def _end_run(config: pytest.Config, why: str) -> None:
    """Let the test processes end after the tests that they run now. The tests that are left do not run."""
    print(why, file=sys.stderr, flush=True)
    sharing = config.pluginmanager.getplugin("dsession")
    sharing.shouldstop = why.partition("\n")[0]


def pytest_configure(config: pytest.Config) -> None:
    """Let the brokers of a test process, and of the commands that it runs, begin with the files of the
    run."""
    told = getattr(config, "workerinput", {})
    os.environ.update({variable: told[name] for name, variable in _FILES.items() if name in told})


def pytest_unconfigure(config: pytest.Config) -> None:
    """Close what the test processes shared: all of them have ended."""
    if (host := config.stash.get(_HOST, None)) is not None:
        host.close()


@pytest.fixture(scope="session")
def broker(request: pytest.FixtureRequest) -> Iterator[KafkaBroker]:
    """A real broker: started for the first test that asks for it, stopped after the last test.

    It is shared, with other processes too. Tests that stop, freeze or kill a broker have to start a
    `KafkaBroker` of their own.
    """
    told = getattr(request.config, "workerinput", {})
    if _ADDRESS in told:
        yield shared_broker(told[_ADDRESS])
        return
    with KafkaBroker(settings=PATIENT) as running:
        yield running


@pytest.fixture(autouse=True)
def _secrets_of_this_test_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have a process forget the secrets of a test after that test: in texts of other tests they may be plain
    words."""
    secrets, before = redaction._Secrets(), redaction._secrets
    secrets.keep(before.all())
    monkeypatch.setattr(redaction, "_secrets", secrets)


@pytest.fixture
def topic_prefix(request: pytest.FixtureRequest) -> Iterator[str]:
    """A prefix for topics, groups and transactional ids that no other test or run uses.

    Topics of the shared broker with this prefix are deleted at the end of the test. Clients ask for all
    topics when they begin, so there should be few.
    """
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)[:40].strip("-")
    prefix = f"{name}-{uuid.uuid4().hex[:8]}-"
    yield prefix
    if "broker" in request.fixturenames:
        _delete_topics(request.getfixturevalue("broker").bootstrap, prefix)


def _delete_topics(bootstrap: str, prefix: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    with suppress(KafkaException):  # a topic that stays fails no test: no test claims that topics are gone
        names = [name for name in admin.list_topics(timeout=30).topics if name.startswith(prefix)]
        if names:
            wait([*admin.delete_topics(names).values()])
