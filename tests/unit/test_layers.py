"""The layers: which package may import which (docs/architecture.md#the-tree).

Imports are read from the source, those inside functions as well. A package may always import itself.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
SERVICE_TREE: Final = ("app", "agents", "tables", "schemas", "pipeline", "sim", "stack", "supply")

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
        "rangefeed",
        "changefeed",
        "processor",
        "delivery",
        "subscribe",
        "verify",
    )
)
LIBRARY: Final = CORE | {"tidegate.client", "tidegate.cli"}


class Layer(NamedTuple):
    """What a package may import beside the foundation, the standard library and itself."""

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
    "tidegate.rangefeed": layer("raftlog"),
    "tidegate.changefeed": layer("rows", "lark fastavro"),
    "tidegate.processor": layer("rangefeed rows changefeed raftlog", "google"),
    "tidegate.delivery": layer("changefeed"),
    "tidegate.subscribe": layer("changefeed"),
    "tidegate.verify": layer("changefeed"),
    "tidegate.client": layer("library", "confluent_kafka httpx2 pydantic tenacity"),
    "tidegate.cli": layer("library", "confluent_kafka click rich"),
    "app": layer(
        "library",
        "faust mode aiokafka confluent_kafka aiohttp yarl pydantic pydantic_settings prometheus_client"
        " structlog",
    ),
    "agents": layer("app tables schemas library", "faust structlog"),
    "tables": layer("library", "faust rocksdict structlog"),
    "schemas": layer("library", "confluent_kafka"),
    "pipeline": layer(
        "schemas library", "pyspark pyarrow deltalake confluent_kafka prometheus_client structlog"
    ),
    "sim": layer("library", "confluent_kafka"),
    # Its errors hang in the tree of tidegate/errors.py, which is of the foundation.
    "stack": layer(others="click confluent_kafka"),
    "supply": layer("stack sim", "click cyclonedx packageurl packaging"),
}
#: The only module that puts agents and tables together with the application.
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
        and not (found.file == ASSEMBLY and found.ours in ("agents", "tables"))
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
