"""The layers: which package may import which (docs/architecture.md#the-tree).

Imports are read from the source, those inside functions as well. A package may always import itself.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
SERVICE_TREE: Final = ("app", "agents", "tables", "schemas", "pipeline", "sim", "stack", "supply", "docsite")

#: Everyone may import these, and they import nothing of ours but each other. The last two are what the span
#: frontier of ``spans`` is made of.
FOUNDATION: Final = frozenset(
    f"tidegate.{name}" for name in ("hlc", "redaction", "spans", "errors", "lowest_first", "sorted_keys")
)
CORE: Final = frozenset(
    f"tidegate.{name}"
    for name in (
        "raftlog",
        "logcheck",
        "rows",
        "ranges",
        "rangefeed",
        "changefeed",
        "processor",
        "delivery",
        "subscribe",
        "verify",
    )
)
LIBRARY: Final = CORE | {f"tidegate.{name}" for name in ("access", "kernel", "replay", "registry", "client")}


class Layer(NamedTuple):
    """The packages that a package may import beside the foundation, the standard library and itself."""

    ours: frozenset[str] = frozenset()
    others: frozenset[str] = frozenset()


def layer(ours: str = "", others: str = "") -> Layer:
    """Both lists are words: ``rows`` means ``tidegate.rows``, ``library`` all of it, ``app`` itself."""
    named = {name if name in SERVICE_TREE else f"tidegate.{name}" for name in ours.split()}
    if "tidegate.library" in named:
        named |= LIBRARY
    return Layer(frozenset(named), frozenset(others.split()))


LAYERS: Final = {
    "tidegate": layer(),
    "tidegate.raftlog": layer(others="google"),
    "tidegate.rows": layer(others="google numpy"),
    "tidegate.logcheck": layer("raftlog rows"),
    "tidegate.ranges": layer("raftlog"),
    "tidegate.rangefeed": layer("raftlog ranges"),
    # pyarrow is in extras: only encoding/arrow_types.py imports it, and nothing else here imports that.
    "tidegate.changefeed": layer("rows", "lark fastavro pyarrow"),
    "tidegate.processor": layer("ranges rows changefeed raftlog", "google"),
    "tidegate.delivery": layer("changefeed"),
    "tidegate.subscribe": layer("changefeed rows", "lark msgspec numpy"),
    "tidegate.verify": layer("changefeed"),
    # wasmtime is in extras: without it the kernel is off.
    "tidegate.kernel": layer("changefeed processor raftlog ranges rows", "wasmtime"),
    "tidegate.replay": layer("changefeed kernel processor raftlog", "fastavro"),
    "tidegate.access": layer("changefeed processor", "pydantic"),
    "tidegate.registry": layer("access changefeed", "confluent_kafka httpx2"),
    # In extras: rocksdict, which only tidegate/client/subscribe/state imports, and nothing else imports that;
    # the next three, which only tidegate/client/subscribe/columnar and functions of .../forms import.
    "tidegate.client": layer(
        "library",
        "confluent_kafka cramjam httpx2 msgspec numpy pydantic rocksdict pyarrow polars pandas tenacity",
    ),
    "tidegate.serve": layer("library", "h11 pygwire starlette uvicorn"),
    "tidegate.cli": layer("library serve", "confluent_kafka click rich"),
    "tidegate.worker": layer(
        "library",
        "faust mode aiokafka confluent_kafka aiohttp yarl pydantic pydantic_settings prometheus_client"
        " rocksdict structlog",
    ),
    "tidegate.spark": layer(
        "library",
        "pyspark py4j pyarrow deltalake obstore confluent_kafka msgspec numpy prometheus_client structlog",
    ),
    "app": layer("library worker", "faust structlog"),
    "agents": layer("tables library worker", "faust structlog"),
    "tables": layer("library worker"),
    "schemas": layer("library worker", "structlog"),
    "pipeline": layer("cli spark"),
    "sim": layer("library", "confluent_kafka"),
    # Its errors hang in the tree of tidegate/errors.py, which is of the foundation.
    "stack": layer(others="click confluent_kafka"),
    "supply": layer("stack sim spark", "click cyclonedx packageurl packaging"),
    "docsite": layer(others="docutils pygments sphinx"),
}

#: The chapters of each package, from the lowest to the highest: a chapter imports those before it.
CHAPTERS: Final = {
    "tidegate.changefeed": "text definition encoding lifecycle statement",
    "tidegate.changefeed.encoding": "connect json avro envelopes",
    "tidegate.cli": "options subscriptions",
    "tidegate.client": "kafka why subscribe",
    "tidegate.client.subscribe": "columnar forms state",
    "tidegate.processor": "state feeds table catchup moving",
    "tidegate.rows": "keyside valueside",
    "tidegate.serve": "shared postgres feeds web",
    "tidegate.spark": "platform changefeed warehouse datasource backfill",
    "tidegate.subscribe": "text updates statement query gate changes outputs client",
    "tidegate.worker": "process operations kafka output state commit markers feeds log_partition",
    "sim": "log store workloads",
    "stack": "processes downloads recipes",
}
#: A folder with more modules than this wants chapters.
MODULES_OF_A_FOLDER: Final = 25
#: The only module that puts agents and schemas together with the application.
ASSEMBLY: Final = "app/main.py"

#: What the core may use of the standard library: nothing that reads a clock, draws numbers or does I/O.
PURE: Final = frozenset(
    """
    __future__ array base64 binascii bisect codecs collections contextlib csv dataclasses datetime decimal
    difflib enum fractions functools hashlib heapq io.BytesIO ipaddress itertools json math operator re string
    struct typing unicodedata urllib.parse uuid zlib
    """.split()  # noqa: SIM905 - a list of words reads better
)
#: Modules of which the core may use some members only: each of them is named in ``PURE``.
PARTLY_PURE: Final = frozenset({"io"})
#: Members of those modules that are not pure all the same.
IMPURE: Final = frozenset({"now", "utcnow", "today", "uuid1", "uuid4", "getnode"})


class Import(NamedTuple):
    """One import: by which file, on which line, of which module."""

    file: str
    line: int
    module: str

    @property
    def ours(self) -> str | None:
        """The package of ours that it names; ``None`` for others'."""
        top, _, rest = self.module.partition(".")
        if top == "tidegate":
            return f"tidegate.{rest.partition('.')[0]}" if rest else "tidegate"
        return top if top in SERVICE_TREE else None


@cache
def imports(package: str) -> tuple[Import, ...]:
    """Every import of a package; of ``tidegate`` itself those of its top-level modules."""
    folder = ROOT / package.replace(".", "/")
    files = folder.glob("*.py") if package == "tidegate" else folder.rglob("*.py")
    written = (file for file in sorted(files) if not file.name.endswith("_pb2.py"))
    return tuple(found for file in written for found in _imports_of(file))


def _imports_of(file: Path) -> Iterator[Import]:
    name = file.relative_to(ROOT).as_posix()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield Import(name, node.lineno, alias.name)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            if module == "tidegate" or module in PARTLY_PURE:
                yield from (Import(name, node.lineno, f"{module}.{alias.name}") for alias in node.names)
            else:
                yield Import(name, node.lineno, module)


def packages() -> list[str]:
    """The packages of the table that are in the tree."""
    return [name for name in LAYERS if (ROOT / name.replace(".", "/")).is_dir()]


@pytest.mark.parametrize("package", packages())
def test_a_package_imports_only_what_its_layer_may(package: str) -> None:
    allowed = LAYERS[package].ours | FOUNDATION | {package}
    wrong = [
        found
        for found in imports(package)
        if found.ours is not None
        and found.ours not in allowed
        and not (found.file == ASSEMBLY and found.ours in ("agents", "schemas"))
    ]
    assert not wrong


@pytest.mark.parametrize("package", packages())
def test_a_package_uses_only_the_dependencies_of_its_layer(package: str) -> None:
    wrong = [
        found
        for found in imports(package)
        if found.ours is None
        and (top := found.module.partition(".")[0]) not in sys.stdlib_module_names
        and top not in LAYERS[package].others
    ]
    assert not wrong


@pytest.mark.parametrize("package", ["tidegate", *sorted(CORE)])
def test_the_core_has_no_clock_no_randomness_and_no_io(package: str) -> None:
    standard = (
        found for found in imports(package) if found.module.partition(".")[0] in sys.stdlib_module_names
    )
    assert not [found for found in standard if not {found.module, found.module.partition(".")[0]} & PURE]


@pytest.mark.parametrize("package", ["tidegate", *sorted(CORE)])
def test_the_core_does_not_reach_the_impure_parts_of_pure_modules(package: str) -> None:
    folder = ROOT / package.replace(".", "/")
    files = folder.glob("*.py") if package == "tidegate" else folder.rglob("*.py")
    wrong = [
        f"{file.relative_to(ROOT)}:{node.lineno} {node.attr}"
        for file in files
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Attribute) and node.attr in IMPURE
    ]
    assert not wrong


@cache
def modules() -> frozenset[str]:
    """Every module and package of the tree, by its dotted name."""
    files = (file for package in packages() for file in (ROOT / package.replace(".", "/")).rglob("*.py"))
    names = (file.relative_to(ROOT).with_suffix("").as_posix().replace("/", ".") for file in files)
    return frozenset(name.removesuffix(".__init__") for name in names)


@cache
def arrows() -> frozenset[tuple[str, str]]:
    """Return which module imports which, of ours."""
    found = set[tuple[str, str]]()
    for name in modules():
        path = ROOT / name.replace(".", "/")
        file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                named = {f"{node.module}.{alias.name}" for alias in node.names} & modules()
                found |= {(name, other) for other in named or {node.module} & modules()}
            elif isinstance(node, ast.Import):
                found |= {(name, alias.name) for alias in node.names if alias.name in modules()}
    return frozenset((one, other) for one, other in found if one != other)


def arrows_in(package: str) -> dict[str, set[str]]:
    """The modules and chapters of a package, and which of these each of them imports."""
    inside: dict[str, set[str]] = {}
    for one, other in arrows():
        if one.startswith(f"{package}.") and other.startswith(f"{package}."):
            start = package.count(".") + 1
            here, there = one.split(".")[start], other.split(".")[start]
            if here != there:
                inside.setdefault(here, set()).add(there)
    return inside


def folders() -> list[str]:
    """Every package of the tree, chapters as well."""
    return sorted({name for name in modules() if (ROOT / name.replace(".", "/")).is_dir()})


@pytest.mark.long
@pytest.mark.parametrize("package", sorted(CHAPTERS))
def test_no_arrow_between_chapters_runs_back_up(package: str) -> None:
    order = CHAPTERS[package].split()
    assert {*order} == {name.rpartition(".")[2] for name in folders() if name.rpartition(".")[0] == package}
    inside = arrows_in(package)
    up = [
        (chapter, other)
        for at, chapter in enumerate(order)
        for other in sorted(inside.get(chapter, ()))
        if other in order[at:]
    ]
    assert not up


@pytest.mark.parametrize("package", [name for name in folders() if name != "tidegate"])
def test_modules_and_chapters_of_a_folder_have_no_circle(package: str) -> None:
    TopologicalSorter(arrows_in(package)).prepare()  # raises CycleError with the names


def test_the_packages_of_the_library_have_no_circle() -> None:
    TopologicalSorter(arrows_in("tidegate")).prepare()


@pytest.mark.parametrize("package", folders())
def test_a_folder_is_small_enough_to_be_looked_through(package: str) -> None:
    folder = ROOT / package.replace(".", "/")
    written = [f for f in folder.glob("*.py") if f.name != "__init__.py" and not f.name.endswith("_pb2.py")]
    assert len(written) <= MODULES_OF_A_FOLDER


def test_imports_are_absolute() -> None:
    assert not [found for package in packages() for found in imports(package) if found.module.startswith(".")]


def test_the_table_names_every_package_of_the_tree() -> None:
    top = {folder.parent.name for folder in ROOT.glob("*/__init__.py")}
    inner = {f"tidegate.{folder.parent.name}" for folder in ROOT.glob("tidegate/*/__init__.py")}
    assert top - {"tests", "bench", "examples"} | inner <= set(LAYERS)


def test_an_import_inside_a_function_is_seen(tmp_path: Path) -> None:
    """The scan itself: what it would miss, no test above could find."""
    file = ROOT / "tests" / "unit" / "test_layers.py"
    assert "ast" in {found.module for found in _imports_of(file)}
    lines = ("import time", "from tidegate import rows", "from . import x", "from io import open")
    source = "".join(["def f():\n", *(f"    {line}\n" for line in lines)])
    nested = ROOT / "tests" / f".{tmp_path.name}.py"
    nested.write_text(source)
    try:
        assert [found.module for found in _imports_of(nested)] == ["time", "tidegate.rows", ".", "io.open"]
    finally:
        nested.unlink()
