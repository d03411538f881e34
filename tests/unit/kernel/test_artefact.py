"""Only the artefact whose hash is known is run, and a process without one says so in one line."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Final

import pytest

from stack.places import CHECKOUT
from tidegate.kernel import artefact

_CRATE: Final = CHECKOUT / "kernel"
_BUILT: Final = "target/wasm32-unknown-unknown/release/tidegate_kernel.wasm"


@pytest.fixture(autouse=True)
def compiled_anew() -> Iterator[None]:
    artefact.compiled.cache_clear()
    yield
    artefact.compiled.cache_clear()


def test_the_hash_beside_the_artefact_is_its_own() -> None:
    assert artefact.HASH_PATH.read_text().split()[0] == sha256(artefact.PATH.read_bytes()).hexdigest()


def test_the_module_is_compiled_once_in_a_process() -> None:
    pytest.importorskip("wasmtime")
    assert artefact.compiled() is artefact.compiled() is not None


def test_another_file_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    pytest.importorskip("wasmtime")
    other = tmp_path / "kernel.wasm"
    other.write_bytes(artefact.PATH.read_bytes() + b"\0")
    monkeypatch.setattr(artefact, "PATH", other)
    assert artefact.compiled() is None
    assert artefact.compiled() is None
    (record,) = caplog.records
    assert "everything runs in Python: kernel.wasm is not the file whose hash" in record.getMessage()


def test_a_process_without_wasmtime_says_so_in_one_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "wasmtime", None)
    assert artefact.compiled() is None
    assert artefact.compiled() is None
    (record,) = caplog.records
    assert "everything runs in Python: wasmtime cannot be imported" in record.getMessage()


def _has_pinned_compiler() -> bool:
    """Whether the compiler of `kernel/rust-toolchain.toml` is installed: asking it would install it."""
    rustup = shutil.which("rustup")
    if rustup is None:
        return False
    pinned = (_CRATE / "rust-toolchain.toml").read_text().split('channel = "')[1].split('"')[0]
    listed = subprocess.run([rustup, "toolchain", "list"], capture_output=True, text=True, check=False)
    targets = subprocess.run(
        [rustup, "target", "list", "--installed", "--toolchain", pinned],
        capture_output=True,
        text=True,
        check=False,
    )
    return pinned in listed.stdout and "wasm32-unknown-unknown" in targets.stdout


@pytest.mark.always
@pytest.mark.long
@pytest.mark.skipif(
    not _has_pinned_compiler(), reason="the compiler that the kernel is pinned to is not installed"
)
def test_the_artefact_is_what_its_source_compiles_to(tmp_path: Path) -> None:
    crate = tmp_path / "elsewhere"
    shutil.copytree(_CRATE, crate, ignore=shutil.ignore_patterns("target"))
    build = ["cargo", "build", "--locked", "--release", "--target", "wasm32-unknown-unknown"]
    subprocess.run(build, cwd=crate, check=True)
    built = sha256((crate / _BUILT).read_bytes()).hexdigest()
    assert built == sha256(artefact.PATH.read_bytes()).hexdigest(), "run `make kernel`"
    subprocess.run(["cargo", "test", "--locked", "--quiet"], cwd=crate, check=True)


def test_a_process_that_holds_a_kernel_ends_without_a_word() -> None:
    pytest.importorskip("wasmtime")
    code = (
        "from tidegate.kernel.artefact import compiled; from tidegate.kernel.instance import Instance\n"
        "held = Instance(*compiled()); held.loop = held; compiled.held = held"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=CHECKOUT
    )
    assert (ended.stdout, ended.stderr) == ("", "")
